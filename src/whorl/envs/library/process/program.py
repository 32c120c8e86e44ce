"""A running program: its pipes with deadlines, its last words, and its end with everything it started.

Nothing here waits without a deadline, and nothing that the program does makes us keep more than we want to: of
what it says aside (stderr) the end is kept, and an answer has a longest length.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from whorl.envs.launchers import without_launcher
from whorl.envs.library.process.guard import Guard

TAG = "WHORL_SCRATCH"
"""The variable that tells a program its folder; by it, children that left the process group are found."""

_EXEC_LOOKS, _EXEC_S = 5, 0.002
_KEPT_BYTES = 16 * 1024
_SHOWN_CHARACTERS = 160
_CHUNK = 64 * 1024
_LOOK_EVERY_S = 1.0
_UNKILLABLE_S = 5.0


class ProgramFailed(RuntimeError):
    """The program died, hung, or said something that cannot be used. One line."""


class Program:
    """One run of the command. With ``talks`` its output is answers, else words to keep the end of."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        guard: Guard,
        talks: bool,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._guard, self._watch, self._talks = str(folder), guard, watch, talks
        self._said, self._aside = bytearray(), bytearray()
        guard.watch(self._folder)
        self._child = subprocess.Popen(
            list(command),
            cwd=folder,
            env={**without_launcher(os.environ), **environment, TAG: self._folder},
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if talks else subprocess.STDOUT,
            start_new_session=True,  # it leads a process group, by which all its children can be ended
        )
        guard.watch(self._folder, self._child.pid)
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        self._open = {pipe.fileno() for pipe in (self._child.stdout, self._child.stderr) if pipe is not None}

    def send(self, line: bytes, deadline_s: float) -> None:
        """Write to its standard input; ``deadline_s`` is a time of the monotonic clock."""
        assert self._child.stdin is not None
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self._child.stdin.fileno(), left) :]
            except BlockingIOError:
                self._pump(deadline_s, "did not read what was sent to it", writing=True)
            except OSError:
                raise self._ended() from None

    def read_line(self, deadline_s: float, most_bytes: int) -> bytes:
        """The next line of its standard output, without its end."""
        searched = 0
        while (end := self._said.find(b"\n", searched)) < 0:
            searched = len(self._said)
            if searched > most_bytes:
                raise self.failure(f"wrote a line of more than {most_bytes} bytes")
            if self._child.stdout is None or self._child.stdout.fileno() not in self._open:
                raise self._ended()
            self._pump(deadline_s, "did not answer")
        line = bytes(self._said[:end])
        del self._said[: end + 1]
        return line

    def has_said_more(self) -> bool:
        """Whether a whole line waits that nobody asked for."""
        self._read_what_is_there()
        return b"\n" in self._said

    def wait(self, deadline_s: float, is_done: Callable[[], bool], what: str) -> None:
        """Until ``is_done``, asked again and again, ever less often. ``ProgramFailed`` when the program ends before."""
        pause_s = 0.0005
        while not is_done():
            if self.has_ended():
                if is_done():
                    return
                raise self._ended()
            self._pump(deadline_s, what, at_most_s=pause_s)
            pause_s = min(0.05, pause_s * 1.5)

    def wait_for_success(self, deadline_s: float) -> None:
        """Until it has ended by itself with exit code 0."""
        self.wait(deadline_s, self.has_ended, "did not end")
        if self._status() != 0:
            raise self._ended()

    def has_ended(self) -> bool:
        """Whether its first process is over. It is left a zombie, so that nobody else gets the group's number."""
        return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def say_goodbye(self) -> None:
        """Close its standard input: a program that minds its manners ends by itself."""
        if self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()

    def end(self, grace_s: float = 0.0) -> None:
        """End it and everything that it started; never raises but for a process that cannot be ended."""
        self.say_goodbye()
        with contextlib.suppress(ProgramFailed):
            if grace_s > 0:
                self.wait(time.monotonic() + grace_s, self.has_ended, "did not end")
        self._read_what_is_there()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        kill_tagged(self._folder)
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
        self._open.clear()
        try:
            self._child.wait(_UNKILLABLE_S)
        except subprocess.TimeoutExpired:
            raise ProgramFailed(f"process {self._child.pid} cannot be ended, not even by SIGKILL") from None

    def last_words(self) -> str:
        """The end of what it said aside."""
        return bytes(self._aside).decode(errors="replace")

    def failure(self, what: str) -> ProgramFailed:
        """What went wrong, with the end of what it said aside, in one line."""
        self._read_what_is_there()
        lines = [line.strip() for line in self.last_words().splitlines() if line.strip()]
        words = " | ".join(lines[-5:])
        words = words if len(words) <= _SHOWN_CHARACTERS else f"...{words[3 - _SHOWN_CHARACTERS :]}"
        heard = "its stderr ends" if self._talks else "its output ends"
        return ProgramFailed(f"the program {what}" + (f"; {heard}: {words}" if words else ""))

    def _ended(self) -> ProgramFailed:
        """It closed its output, or ended: say how, as far as it can be told within a moment."""
        deadline_s = time.monotonic() + 1.0
        while not self.has_ended() and time.monotonic() < deadline_s:
            time.sleep(0.002)
        status = self._status()
        if status is None:
            return self.failure("closed its standard output")
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"
        return self.failure(f"{how} before it answered" if status == 0 else how)

    def _status(self) -> int | None:
        found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return int(found.si_status) if found.si_code == os.CLD_EXITED else -int(found.si_status)

    def _pump(self, deadline_s: float, what: str, writing: bool = False, at_most_s: float = _LOOK_EVERY_S) -> None:
        """Wait for a pipe, and take in what came."""
        now_s = time.monotonic()
        if now_s >= deadline_s:
            raise self.failure(f"{what} in time")
        self._watch()
        poll = select.poll()
        for number in self._open:
            poll.register(number, select.POLLIN)
        if writing and self._child.stdin is not None:
            poll.register(self._child.stdin.fileno(), select.POLLOUT)
        if poll.poll(1000 * min(at_most_s, deadline_s - now_s)):
            self._read_what_is_there()

    def _read_what_is_there(self) -> None:
        """A chunk from each pipe, and no more: one that never ends must not keep us."""
        for pipe, keeps_all in ((self._child.stdout, self._talks), (self._child.stderr, False)):
            if pipe is None or pipe.closed or pipe.fileno() not in self._open:
                continue
            try:
                chunk = os.read(pipe.fileno(), _CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                self._open.discard(pipe.fileno())
            elif keeps_all:
                self._said += chunk
            else:
                self._aside += chunk
                del self._aside[:-_KEPT_BYTES]


def kill_tagged(folder: str) -> None:
    """End processes that left their group but still carry the folder of the episode in their environment."""
    tag = f"{TAG}={folder}\0".encode()
    names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  (it is done after every episode)
    for _ in range(_EXEC_LOOKS):
        names = [name for name in names if _end_if_tagged(name, tag)]
        if not names:
            return
        time.sleep(_EXEC_S)


def _end_if_tagged(name: str, tag: bytes) -> bool:
    """True for one to be looked at again: while it becomes another program, a process has no environment."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{name}/environ", "rb", buffering=0) as environ:  # noqa: PTH123
            found = environ.readall()
        if not found:
            os.readlink(f"/proc/{name}/exe")  # noqa: PTH115  (threads of the kernel and the dead have none)
            return True
        if tag in found + b"\0":
            os.kill(int(name), signal.SIGKILL)
    return False
