"""Finding workflows by name, and running one that another package brings along."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import whorl
from whorl.config import plugins
from whorl.errors import BadInputError, WhorlError
from whorl.workflows.registry import GROUP, get_workflow, workflow_table

PLACE = "plugged_workflow:WORKFLOW"
OURS = ("sync", "overlap", "async", "window", "queue", "seed", "replay", "allreduce", "gradients")


def test_our_own_workflows_are_there() -> None:
    assert [name for name, _ in workflow_table()][: len(OURS)] == [*OURS]
    assert get_workflow("overlap").name == "overlap"
    with pytest.raises(BadInputError, match=r"there is no workflow 'snyc'; did you mean sync\?"):
        get_workflow("snyc")


def test_an_installed_package_adds_its_own_and_a_broken_one_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("plugged", PLACE, GROUP), EntryPoint("broken", "no_such:WORKFLOW", GROUP)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == GROUP else [])
    table = dict(workflow_table())
    assert list(table) == [*OURS, "broken", "plugged"]
    assert table["plugged"] == "sync by another name, which promises less"
    assert table["broken"].startswith(
        "cannot be used: the entry point 'broken' of whorl.workflows: no module 'no_such'"
    )


def test_a_workflow_named_by_its_place_runs_and_keeps_what_it_promises(tmp_path: Path) -> None:
    """The same weights as sync here; but the result does not say exact, since the workflow does not."""
    runs = {
        workflow: whorl.train(
            "a2c", "CartPole-v1", workflow=workflow, steps=200, envs_per_actor=2, run_dir=tmp_path / workflow[:4]
        )
        for workflow in ("sync", PLACE)
    }
    assert runs[PLACE].result.workflow == PLACE
    assert runs[PLACE].result.weights_sha256 == runs["sync"].result.weights_sha256
    assert (runs["sync"].result.exact, runs[PLACE].result.exact) == (True, False)


def test_a_workflow_that_is_in_order_has_the_rules_of_such_though_it_is_not_exact(tmp_path: Path) -> None:
    """The burn-in may be longer than a trajectory where trajectories follow on each other."""
    lstm = {"agent.network.core": "lstm", "agent.network.lstm_size": 8, "agent.rows": 4, "agent.burn_in": 6}
    run = whorl.train(
        "dqn", "CartPole-v1", workflow=PLACE, steps=100, envs_per_actor=2, run_dir=tmp_path / "run", set=lstm
    )
    assert run.status == "completed"
    with pytest.raises(BadInputError, match="always learns from one trajectory of each actor"):
        whorl.train(
            "dqn", "CartPole-v1", workflow=PLACE, run_dir=tmp_path / "no", set={**lstm, "workflow.max_staleness": 1}
        )


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_a_first_learner_that_ends_without_a_word_ends_the_run(tmp_path: Path, engine: str) -> None:
    with pytest.raises(WhorlError, match=r"learner-0 of workflow .*HASTY ended without having said `finished`"):
        whorl.train("a2c", "CartPole-v1", workflow="plugged_workflow:HASTY", engine=engine, run_dir=tmp_path / "run")
