"""The workflows by name."""

from __future__ import annotations

import difflib

from whorl.errors import BadInputError
from whorl.workflows.contract import Workflow
from whorl.workflows.first_come import ASYNC
from whorl.workflows.lockstep import OVERLAP, SYNC

WORKFLOWS = {workflow.name: workflow for workflow in (SYNC, OVERLAP, ASYNC)}


def get_workflow(name: str) -> Workflow:
    """The workflow, or an error that names the nearest."""
    if name not in WORKFLOWS:
        near = difflib.get_close_matches(name, WORKFLOWS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(WORKFLOWS)}"
        raise BadInputError(f"unknown workflow {name!r}: {hint}")
    return WORKFLOWS[name]


def workflow_table() -> list[tuple[str, str]]:
    """Name and summary of each."""
    return [(workflow.name, workflow.summary) for workflow in WORKFLOWS.values()]
