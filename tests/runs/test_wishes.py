"""What other processes ask of a run: each gets its own answer, soon, and nothing is left lying about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from whorl.errors import BadInputError, WhorlError
from whorl.runs.lock import RunLock
from whorl.runs.wishes import WishBox, ask


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def serve(box: WishBox, count: int) -> None:
    while count:
        if (wish := box.look()) is not None:
            box.answer(wish, f"{wish.actors} it is", refused=wish.actors > 8)
            count -= 1
        time.sleep(0.01)


def in_background(task: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=task)
    thread.start()
    return thread


def test_those_who_ask_at_once_all_get_their_answers(tmp_path: Path) -> None:
    said: dict[int, str] = {}
    box = WishBox(tmp_path)
    with RunLock(tmp_path / "lock"):
        threads = [in_background(lambda n=n: said.update({n: ask(tmp_path, n)})) for n in (1, 2, 3)]  # type: ignore[misc]
        time.sleep(0.2)
        assert len(files(tmp_path)) == 4
        serve(box, 3)
        for thread in threads:
            thread.join()
    assert said == {n: f"{n} it is" for n in (1, 2, 3)}
    assert files(tmp_path) == ["lock"]


def test_a_refusal_is_bad_input(tmp_path: Path) -> None:
    with RunLock(tmp_path / "lock"):
        box = WishBox(tmp_path)
        thread = in_background(lambda: serve(box, 1))
        with pytest.raises(BadInputError, match="9 it is"):
            ask(tmp_path, 9)
        thread.join()


def test_a_run_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(WhorlError, match="the run has ended and did not answer"):
        ask(tmp_path, 1)
    assert time.monotonic() - began < 5
    assert files(tmp_path) == []


def test_a_wish_from_before_the_run_began_is_not_heard(tmp_path: Path) -> None:
    (tmp_path / "wish-1.json").write_text('{"id":"1","actors":1}')
    (tmp_path / "wish-2.json").write_text("what")
    assert WishBox(tmp_path).look() is None
    assert files(tmp_path) == ["wish-2.json"]


def test_where_nothing_can_be_written_nobody_is_hurt(tmp_path: Path) -> None:
    (tmp_path / "wish-x.json").mkdir()
    with pytest.raises(BadInputError, match="the run cannot be asked: No such file or directory"):
        ask(tmp_path / "gone", 1)
    box = WishBox(tmp_path)
    (tmp_path / "wish-1.json").write_text('{"id":"1","actors":1}')
    wish = box.look()
    assert wish is not None
    (tmp_path / "answer-1.json").mkdir()
    box.answer(wish, "in vain")
