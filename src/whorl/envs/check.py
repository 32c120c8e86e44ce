"""``whorl check-env``: what is wrong with an environment, where, and how to mend it; or how good it is.

The environment runs in a child process with a deadline, so that one that crashes or hangs is reported and not
suffered. The child (``python -m whorl.envs.check``) reads its task as JSON and writes a line of JSON whenever it begins
something, so that the last line tells where it died.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from io import FileIO
from typing import Any

from whorl.config.schema import EnvConfig
from whorl.envs.launchers import without_launcher
from whorl.envs.probe import EnvProbe
from whorl.envs.spec_json import spec_from_json, spec_to_json
from whorl.errors import BadInputError, EnvironmentFault, MissingExtraError, WhorlError, last_line

CHECK_TIMEOUT_S = 60.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Finding:
    """Something wrong."""

    what: str
    where: str
    mend: str


@dataclass(frozen=True)
class Report:
    """Everything found."""

    env_id: str
    findings: tuple[Finding, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """``observation``, ``action``, ``steps_per_s``, ``step_time_s``, ``reset_time_s``, ``episodes``, ``deterministic``,
    ``seeds_matter``, ``restore``, ``vector_form``, ``autoreset``; as far as the check came."""

    @property
    def is_good(self) -> bool:
        return not self.findings

    def lines(self) -> list[str]:
        """For people."""
        count = len(self.findings)
        verdict = "good" if self.is_good else f"{count} problem{'s' * (count > 1)}"
        lines = [f"{self.env_id}: {verdict}"]
        for finding in self.findings:
            lines += [f"  wrong          {finding.what}", f"  where          {finding.where}"]
            lines += [f"  mend           {finding.mend}"]
        lines += [f"  {name:<13}  {text}" for name, text in _in_words(self.facts)]
        return lines


def _in_words(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts with units, and the three about speed as one."""
    for name, value in facts.items():
        match name:
            case "observation":
                yield name, ", ".join(value)
            case "steps_per_s":
                times = (_duration(facts[key]) for key in ("step_time_s", "reset_time_s"))
                yield "speed", f"{value:,.0f} env steps/s (a step takes {next(times)}, a reset {next(times)})"
            case "step_time_s" | "reset_time_s":
                continue
            case _:
                yield name.replace("_", " "), {True: "yes", False: "no"}.get(value, str(value))


def _duration(seconds: float) -> str:
    """As people say it: ``16 us``, ``1.2 ms``, ``3 s``."""
    for limit_s, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit_s:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def check_env(config: EnvConfig, timeout_s: float = CHECK_TIMEOUT_S) -> Report:
    """Look an environment over in a child process. An unknown id or a missing package raises as in a run."""
    outcome = _in_child("check", config, timeout_s)
    result = outcome.result
    if "report" in result:
        report = result["report"]
        return Report(config.id, tuple(Finding(**finding) for finding in report["findings"]), report["facts"])
    where = outcome.stage
    if "error" in result:
        raise _error_of(result)
    if outcome.timed_out:
        mend = "let every call return; if it is only slow, check it with a longer --timeout"
        return Report(config.id, (Finding(f"it did not come back within {timeout_s:g} s", where, mend),))
    mend = "mend the crash (run it under `python -X faulthandler`); until then set env.hosting to process"
    return Report(config.id, (Finding(f"it ended its own process ({outcome.ending})", where, mend),))


def probe_apart(config: EnvConfig, timeout_s: float = 300.0) -> EnvProbe:
    """As ``probe_env``, but in a child process: an environment that crashes or hangs cannot take this one along.

    One that died or hung after its spaces were known is not refused: the probe says so in ``warning``, and its
    infinite step time gives it a process of its own.
    """
    outcome = _in_child("probe", config, timeout_s)
    result = outcome.result
    if "probe" in result:
        probe = result["probe"]
        return EnvProbe(**{**probe, "spec": spec_from_json(probe["spec"])})
    if "error" in result:
        raise _error_of(result)
    cause = (
        f"did not come back within {timeout_s:g} s" if outcome.timed_out else f"ended its process ({outcome.ending})"
    )
    warning = f"{config.id} {cause} while {outcome.stage}; `whorl check-env {config.id}` tells more"
    if "spec" not in result:
        raise EnvironmentFault(warning)
    return EnvProbe(spec_from_json(result["spec"]), math.inf, 0.0, warning=warning)


def _error_of(result: dict[str, Any]) -> WhorlError:
    kinds: tuple[type[WhorlError], ...] = (MissingExtraError, BadInputError, EnvironmentFault)
    return next((kind for kind in kinds if kind.__name__ == result["kind"]), EnvironmentFault)(result["error"])


@dataclass
class _ChildOutcome:
    """How a child ended, and the last it said."""

    result: dict[str, Any]
    stage: str
    ending: str
    timed_out: bool


def _in_child(task: str, config: EnvConfig, timeout_s: float) -> _ChildOutcome:
    """Run a task in a child, and end the child and whatever it started.

    The end of the child is what counts. Its report is no pipe: a process that the environment forked has that open as
    well, and would be waited for.
    """
    environment = {**without_launcher(os.environ), "PYTHONPATH": os.pathsep.join(sys.path)}
    words = json.dumps({"task": task, "config": asdict(config)}).encode()
    timed_out = False
    with _memory_file(words) as told, _memory_file() as report:
        child = subprocess.Popen(
            [sys.executable, "-m", "whorl.envs.check"],
            stdin=told,
            stdout=report,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _kill_session(child.pid)
            child.wait()
        report.seek(0)
        output = report.read()
    stage = "starting"
    result: dict[str, Any] = {}
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            stage = said.get("stage", stage)
            result |= {name: value for name, value in said.items() if name != "stage"}
    return _ChildOutcome(result, stage, _ending(child.returncode), timed_out)


def _memory_file(content: bytes = b"") -> FileIO:
    """A file in memory, at its beginning. Unbuffered, since a child that is given it moves its position."""
    file = FileIO(os.memfd_create("whorl-check", os.MFD_CLOEXEC), "w+")
    file.write(content)
    file.seek(0)
    return file


def _kill_session(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _main() -> None:
    """The child: one task from standard input, lines of JSON to what was standard output."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # an environment that hangs must not outlive the run
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the environment prints must not mix with the report

    def say(message: dict[str, Any]) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    task = json.loads(sys.stdin.read())
    config = EnvConfig(**task["config"])
    stage: Callable[[str], None] = lambda text: say({"stage": text})  # noqa: E731
    try:
        if task["task"] == "probe":
            from whorl.envs.probe import probe_env

            stage("probing it")
            probe = probe_env(config, on_spec=lambda spec: say({"spec": spec_to_json(spec)}))
            say({"probe": {**asdict(probe), "spec": spec_to_json(probe.spec)}})
        else:
            from whorl.envs.examination import examine

            say({"report": examine(config, stage)})
    except WhorlError as error:
        say({"error": str(error), "kind": type(error).__name__})
    except Exception as error:
        say({"error": f"{config.id}: {last_line(error)}", "kind": EnvironmentFault.__name__})
    lines.close()
    os._exit(0)  # threads and children that the environment left behind must not keep us


if __name__ == "__main__":
    _main()
