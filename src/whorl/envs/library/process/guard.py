"""A small process that outlives ours by a moment: should ours be killed, it ends the program and removes its folder.

It is a shell that reads what to do from a pipe and does it when the pipe ends, which the kernel sees to even after
``kill -9``. The kernel's own death signal would reach the program but not the children of the program.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import IO

_SCRIPT = r"""
group= folder=
while read -r word value; do
    case $word in
        group) group=$value ;;
        folder) folder=$value ;;
        done) group= folder= ;;
    esac
done
[ -n "$group" ] && kill -9 -- "-$group"
if [ -n "$folder" ]; then
    for place in $(grep -lasF "WHORL_SCRATCH=$folder" /proc/[0-9]*/environ); do
        pid=${place#/proc/}
        kill -9 "${pid%/environ}"
    done
    rm -rf -- "$folder"
fi
"""

_ENDS_WITHIN_S = 5.0


class Guard:
    """Told about the program of the episode, and told when it is over."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what is sent to our process group must not reach it
        )

    def watch(self, folder: str, group: int | None = None) -> None:
        """From now on this folder, and this process group, go when we go."""
        self._tell(f"folder {folder}\n" + (f"group {group}\n" if group is not None else ""))

    def release(self) -> None:
        """All is tidied up: there is nothing left to do."""
        self._tell("done\n")

    def close(self) -> None:
        """End the guard; it does what it was last told to."""
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._shell.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._shell.stdin is not None
        return self._shell.stdin

    def _tell(self, text: str) -> None:
        with contextlib.suppress(OSError):  # somebody killed the guard: the program is still ours to end
            self._pipe.write(text.encode())
            self._pipe.flush()
