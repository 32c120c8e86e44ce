"""What a failed role says last: always readable, whatever the exception says."""

from __future__ import annotations

import os

import pytest

from whorl.engines.local.rolemain import describe_failure
from whorl.engines.local.status import PAGE_BYTES
from whorl.engines.mpi.pages import RankPage, private_page
from whorl.engines.wire import decode_body, encode_body
from whorl.errors import BadInputError


def failure_of(message: str) -> dict:
    try:
        raise BadInputError(message)
    except BadInputError as error:
        return describe_failure(error)


@pytest.mark.parametrize("message", ["short", "x" * 100_000, "é" * 100_000, "\U0001f9f5" * 100_000])
def test_a_long_message_is_cut_to_fit_the_page(message: str) -> None:
    page = RankPage(private_page())
    assert page.last_words == {}
    failure = failure_of(message)
    page.say_last(failure)
    words = page.last_words
    assert (words["types"], words["line"], words["final"]) == (failure["types"], failure["line"], True)
    assert message.startswith(words["message"])
    assert len(words["message"]) >= min(len(message), 250)
    assert len(encode_body(words)) < PAGE_BYTES


def test_words_that_are_half_written_are_none() -> None:
    memory = private_page()
    page = RankPage(memory)
    page.say_last(failure_of("no licence"))
    memory[540:] = bytes(len(memory) - 540)
    assert page.last_words == {}


def test_a_message_that_is_not_utf8_is_told_all_the_same() -> None:
    name = os.fsdecode(b"caf\xe9")
    failure = decode_body(encode_body(failure_of(f"cannot open {name}")))
    assert failure["message"] == "cannot open caf?"
    assert "cannot open caf?" in failure["traceback"]
