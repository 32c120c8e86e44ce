from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whorl.errors import BadInputError, MissingExtraError
from whorl.runs.metrics import EpisodeWindow, MetricsWriter, read_metrics
from whorl.runs.tensorboard import TensorBoardWriter


def test_lines_come_back_as_arrays(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    writer.write({"update": 1, "env_steps": 8, "return_mean": math.nan, "loss": np.float32(0.5)})
    writer.write({"update": 2, "env_steps": np.int64(16), "return_mean": 3.5, "stopped": True})
    writer.close()
    writer.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"update": 1, "env_steps": 8, "return_mean": None, "loss": 0.5},
        {"update": 2, "env_steps": 16, "return_mean": 3.5, "stopped": True},
    ]
    metrics = read_metrics(path)
    assert metrics["env_steps"].tolist() == [8, 16]
    assert metrics["env_steps"].dtype == np.int64
    np.testing.assert_array_equal(metrics["return_mean"], [np.nan, 3.5])
    np.testing.assert_array_equal(metrics["loss"], [0.5, np.nan])
    np.testing.assert_array_equal(metrics["stopped"], [np.nan, 1.0])


def test_no_file_is_no_metrics(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "none") == {}
    with pytest.raises(BadInputError, match="cannot read metrics"):
        read_metrics(tmp_path)
    with pytest.raises(BadInputError, match="cannot write metrics"):
        MetricsWriter(tmp_path / "no" / "metrics.jsonl")


def test_a_partial_last_line_is_skipped_and_then_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 1, "env_steps": 8}\nnot json\n[1]\n{"update": 2, "env_st')
    assert read_metrics(path)["update"].tolist() == [1]
    writer = MetricsWriter(path)
    writer.write({"update": 2, "env_steps": 16})
    writer.close()
    assert read_metrics(path)["env_steps"].tolist() == [8, 16]
    path.write_bytes(b"x" * 200_000)
    MetricsWriter(path).close()
    assert path.read_bytes() == b""


def test_a_killed_writer_leaves_readable_lines(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from whorl.runs.metrics import MetricsWriter\n"
        "writer = MetricsWriter(Path(sys.argv[1])); writer.flush_every_s = 0.0\n"
        "for update in range(1, 10**9): writer.write({'update': update, 'env_steps': update * 8})\n"
    )
    path = tmp_path / "metrics.jsonl"
    with subprocess.Popen([sys.executable, "-c", code, path]) as process:
        while not path.exists() or path.stat().st_size < 10_000:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    metrics = read_metrics(path)
    assert metrics["update"].tolist() == list(range(1, len(metrics["update"]) + 1))
    assert (metrics["env_steps"] == metrics["update"] * 8).all()


def test_rewinding_forgets_later_updates(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "metrics.jsonl")
    for update in range(1, 6):
        writer.write({"update": update, "env_steps": update})
    writer.rewind(3, 300)
    writer.write({"update": 4, "env_steps": 44})
    writer.close()
    assert read_metrics(tmp_path / "metrics.jsonl")["env_steps"].tolist() == [1, 2, 3, 44]
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_writes_are_gathered(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    for update in range(100):
        writer.write({"update": update, "env_steps": 0})
    assert path.stat().st_size == 0
    writer.flush()
    assert len(path.read_text().splitlines()) == 100
    writer.close()


def test_a_full_disk_delays_lines_and_loses_none(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    path = small_disk / "metrics.jsonl"
    writer = MetricsWriter(path)
    ballast.write_bytes(bytes((1 << 20) - 8192))
    for update in range(1000):
        writer.write({"update": update, "env_steps": update})
    writer.flush()
    assert "metrics wait to be written: No space left on device" in writer.last_error
    ballast.unlink()
    writer.close()
    assert writer.last_error == ""
    assert read_metrics(path)["update"].tolist() == list(range(1000))


def test_waiting_lines_are_bounded(small_disk: Path) -> None:
    writer = MetricsWriter(small_disk / "metrics.jsonl")
    writer.max_waiting_bytes = 100
    for update in range(10):
        writer.write({"update": update, "env_steps": 0})
    writer.close()
    assert (len(read_metrics(small_disk / "metrics.jsonl")["update"]), writer.dropped) == (3, 7)


def test_episode_window() -> None:
    window = EpisodeWindow(size=3)
    assert math.isnan(window.return_mean)
    assert math.isnan(window.length_mean)
    for value, length in ((100.0, 9), (1.0, 2), (2.0, 4), (6.0, 6)):
        window.add(value, length)
    assert (window.return_mean, window.length_mean, window.episodes, window.full) == (3.0, 4.0, 4, True)
    again = EpisodeWindow(size=3)
    again.add(-5.0, 1)
    again.load(window.save())
    assert (again.return_mean, again.length_mean, again.episodes) == (3.0, 4.0, 4)


def events_in(folder: Path) -> list[Any]:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    (file,) = folder.iterdir()
    return list(LegacyEventFileLoader(str(file)).Load())


def test_tensorboard_files_hold_the_metrics(tmp_path: Path) -> None:
    writer = TensorBoardWriter(tmp_path)
    writer.rewind(0, 4)
    writer.write({"update": 1, "env_steps": 8, "return_mean": 2.5, "loss": None, "kl": math.inf})
    writer.flush()
    writer.close()
    events = events_in(tmp_path)
    values = [(event.step, value.tag, value.simple_value) for event in events for value in event.summary.value]
    assert values == [(8, "return_mean", 2.5)]
    assert 5 in [event.step for event in events if event.HasField("session_log")]


def test_a_full_disk_delays_events_and_loses_none(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    writer = TensorBoardWriter(small_disk / "tensorboard")
    writer.write({"update": 0, "env_steps": 0, "loss": 0.5})
    writer.flush()
    ballast.write_bytes(bytes((1 << 20) - 16384))
    for update in range(1, 1000):
        writer.write({"update": update, "env_steps": update, "loss": 0.5})
    writer.flush()
    assert writer.last_error == f"{small_disk / 'tensorboard'}: events wait to be written: No space left on device"
    ballast.unlink()
    writer.close()
    assert writer.last_error == ""
    writer.close()
    assert [event.step for event in events_in(small_disk / "tensorboard") if event.summary.value] == list(range(1000))


def test_events_wait_for_a_folder_that_cannot_be_made_yet(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("in the way")
    writer = TensorBoardWriter(tmp_path / "tensorboard")
    writer.write({"update": 1, "env_steps": 8, "loss": 0.5})
    writer.flush()
    assert "events wait to be written: " in writer.last_error
    (tmp_path / "tensorboard").unlink()
    writer.close()
    assert writer.last_error == ""
    assert [event.step for event in events_in(tmp_path / "tensorboard")] == [0, 8]


def test_tensorboard_missing_says_how_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whorl\[tensorboard\]'"):
        TensorBoardWriter(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(BadInputError, match="not a plain file"):
        read_metrics(tmp_path / "metrics.jsonl")
