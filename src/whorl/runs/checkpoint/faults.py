"""Built-in fault points of a save, so that users can rehearse a crash on their own cluster.

``WHORL_FAULT_SAVE=stage:action[:n]`` acts in the n-th (default: first) passage of a stage in this process:

    begin         the temporary directory exists and is empty
    arrays        an array file is half written
    json          a JSON file is half written
    manifest      the manifest is half written
    fsync         all files are written, the directory is not yet synced
    rename        just before the rename
    rename_done   just after it, before the parent directory is synced
    verify        before what was written is read again
    prune         after the new one is verified, an older one is renamed and not yet removed

Actions: ``kill`` (SIGKILL to this process), ``eio`` (input/output error), ``enospc`` (no space left on device),
``slow`` (the save takes 2 s longer).
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from whorl.errors import BadInputError

VARIABLE = "WHORL_FAULT_SAVE"
Stage = Literal["begin", "arrays", "json", "manifest", "fsync", "rename", "rename_done", "verify", "prune"]
STAGES: tuple[Stage, ...] = get_args(Stage)
ACTIONS = ("kill", "eio", "enospc", "slow")
SLOW_S = 2.0


@dataclass
class FaultPoints:
    """Passed through a save; ``reach`` does nothing unless a fault was asked for."""

    stage: str = ""
    action: str = ""
    passages_left: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> FaultPoints:
        """Read ``WHORL_FAULT_SAVE``."""
        text = environment.get(VARIABLE, "")
        if not text:
            return cls()
        stage, _, rest = text.partition(":")
        action, _, number = rest.partition(":")
        if stage not in STAGES or action not in ACTIONS or not (number or "1").isdecimal():
            raise BadInputError(
                f"{VARIABLE}={text!r}: write stage:action or stage:action:n, "
                f"stage one of {', '.join(STAGES)}, action one of {', '.join(ACTIONS)}"
            )
        return cls(stage, action, int(number or "1"))

    def reach(self, stage: Stage) -> None:
        """The save has come to this stage."""
        if stage != self.stage:
            return
        self.passages_left -= 1
        if self.passages_left != 0:
            return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.action == "slow":
            time.sleep(SLOW_S)
            return
        code = errno.EIO if self.action == "eio" else errno.ENOSPC
        raise OSError(code, f"{os.strerror(code)} (asked for by {VARIABLE})")
