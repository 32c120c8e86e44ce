from __future__ import annotations

import io

from rich.console import Console

from whorl.tuning.curve import Curve
from whorl.tuning.local import gpu_shares
from whorl.tuning.table import LiveTable, PlainTable, TrialRow, draw_table, make_table

ROWS = [
    TrialRow(0, "done", {"agent.learning_rate": 0.00123, "env.id": "CartPole-v1"}, 2048, 31.25, seconds=4.2),
    TrialRow(1, "running", {"agent.learning_rate": 0.01, "env.id": "CartPole-v1"}, 512, seconds=1.0),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_table_shows_values_and_scores():
    table = make_table("grid", 6, quiet=True)
    for row in ROWS:
        table.put(row)
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(draw_table(table))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for word in (
        "learning_rate",
        "env",
        "0.00123",
        "CartPole-v1",
        "2,048",
        "31.2",
        "4.2 s",
        "1 running, 1 done, of 6 trials",
    ):
        assert word in text, word


def test_the_console_that_fits():
    terminal, file = Terminal(), io.StringIO()
    live = make_table("grid", 6, quiet=False, stream=terminal)
    assert isinstance(live, LiveTable)
    live.put(ROWS[0])
    live.show()
    live.close()
    assert "0.00123" in terminal.getvalue()
    plain = make_table("grid", 6, quiet=False, stream=file)
    assert isinstance(plain, PlainTable)
    plain.say("trial 0: started")
    plain.show()
    assert file.getvalue() == "grid\ntrial 0: started\n", "no table among lines"


def test_gpus_are_shared_out():
    assert gpu_shares(["0", "1"], 0.5) == ["0", "0", "1", "1"]
    assert gpu_shares(["0", "1", "2"], 1) == ["0", "1", "2"]
    assert gpu_shares(["0", "1", "2"], 2) == ["0,1"]
    assert gpu_shares([], 1) == []


def test_a_curve_is_read_as_it_grows_and_again_when_it_was_cut(tmp_path):
    path = tmp_path / "metrics.jsonl"
    curve = Curve(path, "return_mean")
    curve.read()
    assert (curve.score("last", "maximise"), curve.at(1)) == (None, None)
    lines = [f'{{"update": {n}, "env_steps": {100 * n}, "return_mean": {n}.5}}\n' for n in range(1, 5)]
    path.write_text("".join(lines[:3]) + lines[3][:20])
    curve.read()
    assert curve.points == [(100, 1.5), (200, 2.5), (300, 3.5)]
    assert (curve.at(150), curve.at(300), curve.at(301)) == (2.5, 3.5, None)
    path.write_text("".join(lines))
    curve.read()
    assert curve.env_steps == 400
    assert [curve.score(kind, "minimise") for kind in ("last", "best", "mean")] == [4.5, 1.5, 3.0]
    path.write_text(lines[0] + '{"update": 2, "env_steps": 200, "return_mean": null}\n')
    curve.read()
    assert (curve.points, curve.env_steps) == ([(100, 1.5)], 200)
