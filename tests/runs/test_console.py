from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console as RichConsole

from whorl.runs.bottleneck import bottleneck
from whorl.runs.console import PlainConsole, QuietConsole, make_console, plain_line, summary_lines
from whorl.runs.drawing import bar, curve, sparkline
from whorl.runs.panel import LiveConsole, draw_panel
from whorl.runs.result import Result
from whorl.runs.status import RunStatus, duration, number, one_line, rate

SHARES = {"learner": {"learning": 0.62, "waiting": 0.38}, "actor": {"environment": 0.2, "waiting": 0.8}}


def status(**changes: Any) -> RunStatus:
    values: dict[str, Any] = {
        "agent": "ppo",
        "env": "CartPole-v1",
        "workflow": "sync",
        "engine": "local",
        "exact": True,
        "env_steps": 51_200,
        "total_env_steps": 100_000,
        "updates": 200,
        "episodes": 1234,
        "elapsed_s": 12.4,
        "env_steps_per_s": 4129.0,
        "updates_per_s": 16.1,
        "return_mean": 321.5,
        "return_best": 330.25,
        "return_history": ((256, 20.0), (25_600, 150.0), (51_200, 321.5)),
        "time_share": SHARES,
        **changes,
    }
    return RunStatus(**values)


def result(**changes: Any) -> Result:
    values: dict[str, Any] = {
        "status": "completed",
        "agent": "ppo",
        "env": "CartPole-v1",
        "workflow": "sync",
        "engine": "local",
        "env_steps": 51_200,
        "updates": 200,
        "episodes": 1234,
        "return_mean": 321.5,
        "wall_s": 12.4,
        "env_steps_per_s": 4129.0,
        "weights_sha256": "0" * 64,
        "exact": True,
        **changes,
    }
    return Result(**values)


def test_plain_line() -> None:
    assert plain_line(status(restarts=2, staleness_mean=0.96, staleness_max=1, failed_saves=1)) == (
        "51,200 of 100,000 env steps (51 %) | 4,129 env steps/s | 200 updates | return 321.5 | 1,234 episodes | 12 s"
        " | 12 s left | staleness 1.0 (max 1) | 2 restarts | 1 failed save"
    )


def test_plain_console_shows_a_line_every_five_seconds_and_warnings_at_once() -> None:
    now = 0.0
    stream = io.StringIO()
    console = PlainConsole(stream, clock=lambda: now)
    for now in (0.0, 1.0, 4.9, 5.1, 6.0, 11.0):
        console.update(status(warnings=("actor-1 died\x1b[31m\nbadly",) if now > 4 else ()))
    lines = stream.getvalue().splitlines()
    assert [line.startswith("51,200 of") for line in lines] == [True, False, True, True]
    assert lines[1] == "warning: actor-1 died [31m badly"


def test_summary() -> None:
    lines = summary_lines(status(), result(), Path("my runs/ppo-1"), ascii_only=True, width=20)
    assert lines == [
        "",
        "Done: ppo on CartPole-v1 (sync, local, exact)",
        "  return    321.5 (mean of the last 100 of 1,234 episodes)",
        "  trained   51,200 env steps, 200 updates in 12 s (4,129 env steps/s)",
        "  time      the learner learns 62 % of the time: fewer epochs, more --learner-threads or --workflow overlap "
        "would help",
        "",
        "  321.5 |                 ***",
        "        |              ***   ",
        "        |           ***      ",
        "        |       ****         ",
        "        |    ***             ",
        "     20 |****                ",
        "         256  51.2k env steps",
        "",
        "Next",
        "  whorl eval 'my runs/ppo-1'",
        "  whorl plot 'my runs/ppo-1'",
        "  whorl resume 'my runs/ppo-1' --stop-return none",
    ]


def test_summary_of_a_failed_run_names_the_error_and_how_to_go_on() -> None:
    failed = result(status="failed", error="actor-0 died 5 times", return_mean=None, env_steps_per_s=None, episodes=0)
    text = "\n".join(summary_lines(status(return_history=()), failed, Path("run"), ascii_only=False))
    assert "Failed: ppo on CartPole-v1" in text
    assert "error     actor-0 died 5 times" in text
    assert "return    - (mean of the last 0 of 0 episodes)" in text
    assert "Next\n  whorl resume run\n" in text


def test_a_run_that_failed_before_its_first_update_is_neither_judged_nor_looked_at() -> None:
    failed = result(status="failed", error="no licence", return_mean=None, updates=0, env_steps=0, episodes=0)
    lines = summary_lines(status(return_history=()), failed, Path("run"), ascii_only=False)
    assert lines[-2:] == ["Next", "  whorl resume run"]
    assert not any(line.startswith("  time") for line in lines)


def test_panel_fits_eighty_columns() -> None:
    stream = io.StringIO()
    rich = RichConsole(file=stream, width=80, force_terminal=False)
    rich.print(draw_panel(status(checkpoint_age_s=3.0, warnings=("[bold]not markup[/bold]",))))
    text = stream.getvalue()
    assert all(len(line) == 80 for line in text.splitlines())
    assert "321.5  ▁▄█  best 330.2   1,234 episodes" in text
    assert "bottleneck: the learner learns 62 % of the time" in text
    assert "warning: [bold]not markup[/bold]" in text
    assert "saved 3.0 s ago" in text


def test_live_console_redraws_rarely_and_puts_the_cursor_back() -> None:
    stream = io.StringIO()
    rich = RichConsole(file=stream, width=80, force_terminal=True, color_system=None)
    console = LiveConsole(stream, rich)
    for _ in range(1000):
        console.update(status())
    drawn = stream.getvalue()
    assert drawn.count("progress") <= 2
    console.finish(status(), result(), Path("run"))
    console.close()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")
    assert "whorl eval run" in stream.getvalue()


def test_the_console_fits_the_stream() -> None:
    assert isinstance(make_console(quiet=True), QuietConsole)
    assert isinstance(make_console(stream=io.StringIO()), PlainConsole)
    code = "import sys; from whorl.runs.console import make_console; make_console(); print('rich' in sys.modules)"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert plain.stdout == "False\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_will_do(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = PlainConsole(stream)
    console.update(status(env="Pöle-v1", warnings=("naïve ☃",)))
    console.finish(status(), result(env="Pöle-v1"), Path("run"))
    assert b"Done: ppo on P" in raw.getvalue()


def test_a_reader_that_went_away_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "w", buffering=1)
    PlainConsole(stream).update(status())
    with pytest.raises(BrokenPipeError):
        stream.close()


numbers = st.floats() | st.integers(-(10**18), 10**18)
counts = st.integers(0, 10**18)
shares = st.dictionaries(
    st.text(max_size=8), st.dictionaries(st.text(max_size=8), st.floats(0, 1), max_size=4), max_size=3
)
histories = st.lists(st.tuples(counts, st.floats()), max_size=30).map(
    lambda points: tuple(sorted(points, key=lambda p: p[0]))
)


@settings(deadline=None, max_examples=150)
@given(
    words=st.tuples(st.text(), st.text(), st.text(), st.text()),
    steps=counts,
    total=counts,
    floats=st.tuples(numbers, numbers, numbers, numbers, numbers),
    history=histories,
    time_share=shares,
    warnings=st.lists(st.text(), max_size=3),
)
def test_no_status_breaks_a_console(
    words: tuple[str, str, str, str],
    steps: int,
    total: int,
    floats: tuple[float, ...],
    history: tuple[tuple[int, float], ...],
    time_share: dict[str, dict[str, float]],
    warnings: list[str],
) -> None:
    agent, env, workflow, engine = words
    shown = status(
        agent=agent,
        env=env,
        workflow=workflow,
        engine=engine,
        env_steps=steps,
        total_env_steps=total,
        elapsed_s=floats[0],
        env_steps_per_s=floats[1],
        updates_per_s=floats[2],
        return_mean=floats[3],
        return_best=floats[4],
        return_history=history,
        time_share=time_share,
        warnings=tuple(warnings),
    )
    stream = io.StringIO()
    console = PlainConsole(stream)
    console.update(shown)
    console.finish(shown, result(agent=agent, env=env), Path("run"))
    assert all(line.isprintable() for line in stream.getvalue().split("\n"))
    RichConsole(file=io.StringIO(), width=60).print(draw_panel(shown))


@given(values=st.lists(st.floats(), max_size=200), width=st.integers(-2, 50), ascii_only=st.booleans())
def test_sparkline_fits(values: list[float], width: int, ascii_only: bool) -> None:
    line = sparkline(values, width, ascii_only)
    assert len(line) <= max(0, width)
    assert bool(line) == (width > 0 and any(math.isfinite(value) for value in values))


def test_drawings_by_example() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5, 5], ascii_only=True) == "+++"
    assert sparkline([0, 0, 10, 10], width=2, ascii_only=True) == "_#"
    assert bar(0.5, 4) == "██░░"
    assert bar(math.nan, 4, ascii_only=True) == "...."
    assert curve([(0, 0.0)]) == []
    assert curve([(0, 0.0), (8, 8.0)], width=4, height=2)[0].startswith("8 ┤")
    assert curve([(0, 0.0), (10, 0.0), (20_000, 10.0)], width=20, height=2, ascii_only=True) == [
        "10 |          **********",
        " 0 |**********          ",
        "    0    20.0k env steps",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-", number(math.nan)),
        ("475", number(475.0)),
        ("21.5", number(21.46)),
        ("-1,235", number(-1234.6)),
        ("0.0123", number(0.01234)),
        ("12.3k", rate(12_300)),
        ("9,999", rate(9_999)),
        ("1.2M", rate(1_200_000)),
        ("0.33", rate(1 / 3)),
        ("4.2 s", duration(4.2)),
        ("10 s", duration(9.96)),
        ("1 min 00 s", duration(59.7)),
        ("3 min 20 s", duration(200)),
        ("2 h 05 min", duration(7500)),
        ("5 days", duration(5 * 86_400)),
        ("-", duration(math.inf)),
        ("a b c", one_line("a\n\tb\x00 c")),
        ("abc...", one_line("abcdefghij", 6)),
    ],
)
def test_how_numbers_are_written(text: str, value: str) -> None:
    assert value == text


@pytest.mark.parametrize(
    ("time_share", "workflow", "sentence"),
    [
        (
            {"learner": {"learning": 0.82}, "actor": {"environment": 0.1}},
            "sync",
            "the learner learns 82 % of the time: fewer epochs, more --learner-threads or --workflow overlap would "
            "help",
        ),
        (
            {"learner": {"learning": 0.82}, "actor": {"environment": 0.1}},
            "overlap",
            "the learner learns 82 % of the time: fewer epochs, more --learner-threads or more --learners would help",
        ),
        (
            {"learner": {"learning": 0.1, "waiting": 0.9}, "actor": {"environment": 0.7, "inference": 0.1}},
            "sync",
            "the actors step environments 70 % of the time: more --actors would help",
        ),
        (
            {"learner": {"learning": 0.1, "waiting": 0.9}, "actor": {"waiting": 0.9}, "env": {"environment": 0.95}},
            "sync",
            "the environments' own processes step environments 95 % of the time: more --actors would help",
        ),
        (
            {"actor": {"environment": 0.2, "inference": 0.65}},
            "overlap",
            "the actors infer actions 65 % of the time: more --envs-per-actor (larger batches) or a smaller network "
            "would help",
        ),
        (
            {"learner": {"learning": 0.45, "waiting": 0.55}, "actor": {"environment": 0.3, "inference": 0.2}},
            "sync",
            "the learner (busy 45 % of the time) and the actors (50 %) take turns: --workflow overlap lets them work "
            "at once",
        ),
        (
            {"learner": {"transfer": 0.5, "learning": 0.2}},
            "overlap",
            "the learner moves data 50 % of the time: longer trajectories, fewer --actors per learner or smaller "
            "observations would help",
        ),
        ({"learner": {"waiting": 1.0}}, "sync", "no bottleneck to name yet: nobody has worked for long enough"),
        ({}, "", "no bottleneck to name yet: nobody has worked for long enough"),
    ],
)
def test_bottleneck_in_one_sentence(time_share: dict[str, dict[str, float]], workflow: str, sentence: str) -> None:
    assert bottleneck(time_share, workflow) == sentence


def test_roles_between_actors_and_learners_have_advice_of_their_own() -> None:
    busy = {"transfer": 0.9, "waiting": 0.1}
    said = bottleneck({"replay": busy, "learner": {"learning": 0.2}, "actor": {"environment": 0.3}}, "replay")
    assert said.startswith("the replays move data 90 % of the time: more workflow.replay_shards")
    said = bottleneck({"inference": {"inference": 0.9}, "learner": {"learning": 0.2}}, "seed")
    assert said.startswith("the inference server infers actions 90 % of the time: a smaller network")
