"""Workflows by name: our own, and those that installed packages offer under the entry-point group ``whorl.workflows``.

    [project.entry-points."whorl.workflows"]
    my_workflow = "my_package.my_workflow:WORKFLOW"

One that is not registered is named by its place, ``my_package.my_workflow:WORKFLOW``.
"""

from __future__ import annotations

from whorl.config.plugins import find_part, plugin_names, summary_of
from whorl.workflows.contract import Workflow

GROUP = "whorl.workflows"
_OWN = {
    "sync": "whorl.workflows.lockstep:SYNC",
    "overlap": "whorl.workflows.lockstep:OVERLAP",
    "async": "whorl.workflows.first_come:ASYNC",
    "window": "whorl.workflows.window:WINDOW",
    "queue": "whorl.workflows.queue:QUEUE",
    "seed": "whorl.workflows.seed:SEED",
    "replay": "whorl.workflows.replay:REPLAY",
    "allreduce": "whorl.workflows.allreduce:ALLREDUCE",
    "gradients": "whorl.workflows.gradients:GRADIENTS",
}


def get_workflow(name: str) -> Workflow:
    """The workflow of that name; our own take precedence."""
    return find_part("workflow", name, Workflow, _OWN, GROUP)


def workflow_table() -> list[tuple[str, str]]:
    """Name and summary of each that has a name of its own; ours first."""
    names = [*_OWN, *sorted({*plugin_names(GROUP)} - _OWN.keys())]
    return [(name, summary_of(get_workflow, name)) for name in names]
