"""``whorl/Leak-v0``: an environment that does not clean up after itself, or reaches out of its box."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from typing import Any

from whorl.envs.library.around import Around, Info, StepResult, one_of

LEAKS = ("threads", "descriptors", "memory", "fork", "chdir", "signals", "info")
_CHILD_LIFE_S = 60.0


class Leak(Around):
    """Leaks threads, descriptors, memory, processes or info, or changes the directory or signal handlers.

    ``close`` gives threads, descriptors and memory back: recycling the environment is a cure. Wraps CartPole-v1.

    how:    threads, descriptors, memory or info: one more at each env step; fork: a child at each reset, which
            lives for a minute or until its parent ends; chdir and signals: at reset
    bytes:  how much memory each env step leaks
    env:    id of the environment to wrap (other arguments are passed on to it)
    """

    def __init__(self, how: str = "descriptors", bytes: int = 100_000, **kwargs: Any) -> None:
        self._how, self._bytes = one_of("how", how, LEAKS), bytes
        self._closed = threading.Event()
        self._kept: list[Any] = []
        super().__init__(**kwargs)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Reset, and reach out."""
        if self._how == "chdir":
            os.chdir(tempfile.gettempdir())
        elif self._how == "signals":
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        elif self._how == "fork":
            _fork_a_child()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> StepResult:
        """Step, and leak."""
        observation, reward, terminated, truncated, info = super().step(action)
        if self._how == "threads":
            thread = threading.Thread(target=self._closed.wait, daemon=True)
            thread.start()
            self._kept.append(thread)
        elif self._how == "descriptors":
            self._kept.append(os.open(os.devnull, os.O_RDONLY))
        elif self._how == "memory":
            self._kept.append(b"x" * self._bytes)
        elif self._how == "info":
            self._kept.append("x" * 1000)
            info = {"everything so far": list(self._kept)}
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Give back what can be given back."""
        super().close()
        self._closed.set()
        for kept in self._kept:
            if self._how == "threads":
                kept.join()
            elif self._how == "descriptors":
                os.close(kept)
        self._kept.clear()


def _fork_a_child() -> None:
    parent = os.getpid()
    if os.fork():
        return
    end_s = time.monotonic() + _CHILD_LIFE_S
    while os.getppid() == parent and time.monotonic() < end_s:
        time.sleep(0.05)
    os._exit(0)
