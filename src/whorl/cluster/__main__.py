"""``python -m whorl.cluster job|node|first ...``: what the script of a job starts. Not for typing."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from whorl.errors import EXIT_FAILED, WhorlError


def main(words: list[str]) -> int:
    """Returns the exit code; an error is one line."""
    kind, rest = words[0], words[1:]
    try:
        return _KINDS[kind](rest)
    except WhorlError as error:
        print(f"whorl: error: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _job(words: list[str]) -> int:
    from whorl.cluster.job import BatchJob
    from whorl.cluster.orders import JobOrder

    return BatchJob(JobOrder.from_words(words)).run()


def _node(words: list[str]) -> int:
    from whorl.cluster.node import Node, NodeOrder

    own, training = _cut(words)
    parser = _parser_of_run()
    for name, kind in (("nodes", int), ("towards", str), ("heads", int), ("interface", str), ("join-timeout", float)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--guest", action="store_true")
    given = vars(parser.parse_args(own))
    return Node(NodeOrder(join_timeout_s=given.pop("join_timeout"), words=training, **given)).run()


def _first(words: list[str]) -> int:
    """A ``whorl`` command that may be a rank; the first one's exit code is that of the training."""
    from whorl.cluster.addresses import one_network_device
    from whorl.cluster.allocation import find_allocation, rank_index
    from whorl.cluster.meeting import Meeting
    from whorl.engines.mpi.finding import MARK

    own, training = _cut(words)
    parser = _parser_of_run()
    parser.add_argument("--interface", default="")
    given = parser.parse_args(own)
    os.environ[MARK] = str(Meeting(given.run_dir, given.key).mpi_mark)
    if (allocation := find_allocation()) is not None:
        others = [node for node in allocation.nodes if node != os.environ.get("SLURMD_NODENAME")]
        try:
            os.environ.update(one_network_device(given.interface, others))
        except WhorlError as error:
            Meeting(given.run_dir, given.key).say_exit(error.exit_code)  # the ranks elsewhere are ended without a word
            raise
    sys.argv = ["whorl", *training]
    code = EXIT_FAILED
    try:
        runpy.run_module("whorl", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else EXIT_FAILED
    if rank_index() == 0:
        Meeting(given.run_dir, given.key).say_exit(code)
    return code


def _parser_of_run() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--run-dir", type=Path)
    parser.add_argument("--key")
    return parser


def _cut(words: list[str]) -> tuple[list[str], list[str]]:
    position = words.index("--")
    return words[:position], words[position + 1 :]


_KINDS = {"job": _job, "node": _node, "first": _first}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
