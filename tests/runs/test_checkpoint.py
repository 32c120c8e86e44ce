from __future__ import annotations

import json
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from whorl.errors import CheckpointError
from whorl.runs.checkpoint import (
    BackgroundSaver,
    CheckpointMeta,
    CheckpointWriter,
    SaveRequest,
    attach_draft,
    load,
    load_latest,
)
from whorl.runs.checkpoint.format import DTYPES
from whorl.runs.directory import RunDirectory

from .saving import assert_loads, mount_tmpfs, save_update


@pytest.fixture
def writer(run: RunDirectory) -> CheckpointWriter:
    return CheckpointWriter(run.checkpoints, keep=3, token=1)


def names(writer: CheckpointWriter) -> list[str]:
    return sorted(entry.name for entry in writer.directory.iterdir())


def test_nothing_yet_is_none(run: RunDirectory, tmp_path: Path) -> None:
    assert load_latest(run.checkpoints) is None
    assert load_latest(tmp_path / "nowhere") is None


def test_saves_load_and_old_ones_go(writer: CheckpointWriter) -> None:
    for update in (1, 2, 30, 100):
        save_update(writer, update)
    assert names(writer) == ["update-000000002", "update-000000030", "update-000000100"]
    assert assert_loads(writer.directory, 100) == []
    assert writer.warnings == []


@settings(max_examples=40, deadline=None)
@given(
    arrays=st.dictionaries(
        st.text(max_size=8).filter(lambda name: name != "__metadata__"),
        st.sampled_from(sorted(DTYPES.values())).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        ),
        max_size=4,
    )
)
def test_arrays_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]) -> None:
    writer = CheckpointWriter(tmp_path_factory.mktemp("c"), keep=1, token=1)
    draft = writer.begin(1)
    draft.write_arrays("all", arrays)
    back = load(draft.commit(CheckpointMeta(0))).arrays["all"]
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (back[name].shape, back[name].dtype) == (array.shape, array.dtype)
        assert back[name].tobytes() == array.tobytes()
        assert back[name].flags.writeable


def test_views_are_saved_as_they_look(writer: CheckpointWriter) -> None:
    grid = np.arange(12, dtype=np.int32).reshape(3, 4)
    draft = writer.begin(1)
    draft.write_arrays("a", {"columns": grid.T, "every_other": grid[:, ::2], "backwards": grid[::-1]})
    back = load(draft.commit(CheckpointMeta(0))).arrays["a"]
    assert back["columns"].tolist() == grid.T.tolist()
    assert back["every_other"].tolist() == [[0, 2], [4, 6], [8, 10]]
    assert back["backwards"].tolist() == grid[::-1].tolist()


@pytest.mark.parametrize("array", [np.array([None]), np.array(["x"]), np.array([1j]), np.array([1.0], dtype=">f8")])
def test_only_plain_numbers_are_saved(writer: CheckpointWriter, array: np.ndarray) -> None:
    draft = writer.begin(1)
    with pytest.raises(CheckpointError, match=r"array 'a' has dtype .* which a checkpoint cannot hold"):
        draft.write_arrays("learner", {"a": array})
    assert names(writer) == []


def test_json_keeps_large_integers_and_floats(writer: CheckpointWriter) -> None:
    state = {"rng": 2**127 + 1, "third": 1 / 3, "low": float("-inf"), "list": [1, None, True]}
    draft = writer.begin(1)
    draft.write_json("state", state)
    assert load(draft.commit(CheckpointMeta(0))).values == {"state": state}


def test_other_processes_add_their_parts(writer: CheckpointWriter) -> None:
    draft = writer.begin(5)
    draft.write_arrays("ledger-0", {"a": np.zeros(2)})
    attach_draft(draft.path).write_arrays("ledger-1", {"a": np.ones(2)})
    checkpoint = load(draft.commit(CheckpointMeta(50, parts=("ledger-1.safetensors",))))
    assert checkpoint.arrays["ledger-1"]["a"].tolist() == [1.0, 1.0]


def test_a_part_that_never_came_stops_the_save(writer: CheckpointWriter) -> None:
    save_update(writer, 1)
    draft = writer.begin(2)
    with pytest.raises(CheckpointError, match=r"ledger-1\.safetensors was never written"):
        draft.commit(CheckpointMeta(0, parts=("ledger-1.safetensors",)))
    draft = writer.begin(2)
    (draft.path / ".ledger-1.safetensors").write_bytes(b"half")
    with pytest.raises(CheckpointError, match="which nobody announced"):
        draft.commit(CheckpointMeta(0))
    assert names(writer) == ["update-000000001"]


def test_latest_is_decided_by_the_manifest(writer: CheckpointWriter) -> None:
    first, second = save_update(writer, 1), save_update(writer, 2)
    first.rename(writer.directory / "update-000000999")
    (writer.directory / "update-000000999").touch()
    assert assert_loads(writer.directory, 2) == []
    assert second.exists()


def test_the_same_update_again_is_put_beside_and_wins(writer: CheckpointWriter) -> None:
    save_update(writer, 7)
    draft = writer.begin(7)
    draft.write_json("state", "again")
    assert draft.commit(CheckpointMeta(70)).name == "update-000000007.1"
    assert names(writer) == ["update-000000007.1"]
    newest = load_latest(writer.directory)
    assert newest is not None
    assert newest.values == {"state": "again"}


def test_going_back_behind_a_damaged_one_goes_on_from_there(run: RunDirectory, writer: CheckpointWriter) -> None:
    for update in (1, 2, 3):
        save_update(writer, update)
    newest = writer.directory / "update-000000003" / "learner.safetensors"
    newest.write_bytes(b"")
    later = CheckpointWriter(run.checkpoints, keep=3, token=2)
    (warning,) = assert_loads(run.checkpoints, 2)
    assert "PASSED OVER" in warning
    later.keep = 2
    draft = later.begin(2)
    draft.write_json("state", 0)
    draft.commit(CheckpointMeta(20))
    assert names(later) == ["update-000000001", "update-000000002.1"]


def test_an_overtaken_writer_refuses(run: RunDirectory, writer: CheckpointWriter) -> None:
    save_update(writer, 1)
    draft = writer.begin(2)
    draft.write_json("state", 0)
    run.lock().close()
    with run.lock() as lock:
        assert lock.token == 3
        with pytest.raises(CheckpointError, match=r"another run has taken this directory \(its token is 3, ours 1\)"):
            draft.commit(CheckpointMeta(0))
        with pytest.raises(CheckpointError, match="another run has taken"):
            writer.begin(2)
        save_update(CheckpointWriter(run.checkpoints, keep=3, token=lock.token), 2)
    (run.path / "lock").unlink()
    with pytest.raises(CheckpointError, match="its token is 3, ours 1"):
        writer.begin(3)
    with run.lock() as lock:
        assert lock.token == 4


def test_left_overs_are_cleared_by_the_next_writer_only(run: RunDirectory, writer: CheckpointWriter) -> None:
    save_update(writer, 1)
    stale = writer.begin(2)
    stale.write_json("state", 0)
    assert assert_loads(writer.directory, 1) == []
    assert stale.path.exists()
    save_update(CheckpointWriter(run.checkpoints, keep=3, token=2), 2)
    assert names(writer) == ["update-000000001", "update-000000002"]
    with pytest.raises(CheckpointError, match="not saved"):
        stale.write_json("more", 0)


def test_moved_and_copied_directories_load(run: RunDirectory, writer: CheckpointWriter, tmp_path: Path) -> None:
    path = save_update(writer, 4)
    shutil.copytree(run.path, tmp_path / "copy")
    run.path.rename(tmp_path / "moved")
    for place in ("copy", "moved"):
        opened = RunDirectory.open(tmp_path / place)
        assert assert_loads(opened.checkpoints, 4) == []
    shutil.copytree(tmp_path / "moved" / "checkpoints" / path.name, tmp_path / "best")
    assert load(tmp_path / "best").update == 4


def test_read_only_file_system(run: RunDirectory, writer: CheckpointWriter, tmp_path: Path) -> None:
    import subprocess

    save_update(writer, 4)
    disk = tmp_path / "disk"
    mount_tmpfs(disk)
    try:
        shutil.copytree(run.path, disk / "run")
        (disk / "run" / "checkpoints" / ".tmp-1-abc").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        opened = RunDirectory.open(disk / "run")
        assert assert_loads(opened.checkpoints, 4) == []
        with pytest.raises(CheckpointError, match=r"Read-only file system; the older ones are kept"):
            CheckpointWriter(opened.checkpoints, keep=3, token=1).begin(5)
        with pytest.raises(Exception, match="cannot take the run for writing: Read-only file system"):
            opened.lock()
        assert (disk / "run" / "checkpoints" / ".tmp-1-abc").exists()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_another_version_is_noted_and_a_newer_format_refused(
    writer: CheckpointWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whorl.runs.checkpoint.writing.whorl_version", lambda: "9.9")
    save_update(writer, 1)
    (warning,) = assert_loads(writer.directory, 1)
    assert "was written by whorl 9.9, and this is" in warning
    path = save_update(writer, 2)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(CheckpointError, match=r"format 2 by whorl 9\.9.*reads up to format 1: install that version"):
        load_latest(writer.directory)


def test_background_saver_saves_one_at_a_time(writer: CheckpointWriter) -> None:
    saver = BackgroundSaver(writer)
    request = SaveRequest(1, {"learner": {"w": np.ones(3)}}, {"state": {}}, CheckpointMeta(10))
    assert saver.submit(request)
    saver.wait()
    saver.wait()
    (outcome,) = saver.poll()
    assert outcome.path == writer.directory / "update-000000001"
    assert saver.poll() == []
    assert not saver.busy


def test_a_second_signal_during_a_save_waits_for_the_same_one(
    writer: CheckpointWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = BackgroundSaver(writer)
    may_go_on = threading.Event()
    begin = writer.begin
    monkeypatch.setattr(writer, "begin", lambda update: may_go_on.wait(30) and begin(update))
    request = SaveRequest(1, {}, {"state": 0}, CheckpointMeta(10))

    def on_alarm(*_: object) -> None:
        assert not saver.submit(request)
        may_go_on.set()
        saver.wait()

    previous = signal.signal(signal.SIGALRM, on_alarm)
    try:
        assert saver.submit(request)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        saver.wait()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert [outcome.path is not None for outcome in saver.poll()] == [True]
    assert names(writer) == ["update-000000001"]


def test_background_failure_is_surfaced_counted_and_retried(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHORL_FAULT_SAVE", "verify:eio:2")
    writer = CheckpointWriter(run.checkpoints, keep=1, token=1)
    saver = BackgroundSaver(writer)
    for update, ok in ((1, True), (2, False), (3, True)):
        saver.submit(SaveRequest(update, {}, {"state": update}, CheckpointMeta(0)))
        saver.wait()
        (outcome,) = saver.poll()
        assert (outcome.error is None) == ok
        newest = load_latest(run.checkpoints)
        assert newest is not None
        assert newest.update == (update if ok else update - 1)
    assert names(writer) == ["update-000000003"]


def test_an_unexpected_error_in_the_thread_is_surfaced(writer: CheckpointWriter) -> None:
    saver = BackgroundSaver(writer)
    saver.submit(SaveRequest(1, {}, {"state": object()}, CheckpointMeta(0)))
    saver.wait()
    (outcome,) = saver.poll()
    assert "not JSON serializable" in str(outcome.error)
    assert names(writer) == []
