"""Runs everything, part by part, resumably, and writes the evidence.

    python tools/verify.py [PART ...] [--jobs N] [--again] [--list]

The first part is what `make test` runs. Then come the tests marked ``verify``, file by file, a few in each part, so
that a new long test is picked up by itself and little is lost when the call is interrupted. A part that passed on the
same code (src, tests, pyproject, constraints) is not run again unless ``--again`` is given; so an interrupted call goes
on where it was. The outcomes are kept in .verify/state.json, the full output in .verify/<part>.log, the evidence in
docs/results/verify-<date>.md. With ``--jobs`` several parts run side by side; the first one, whose tests of deadlines
want the machine to themselves, still runs alone.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / ".verify"
CODE = ("src", "tests", "pyproject.toml", "constraints.txt")
QUICK = "quick"
TESTS_PER_PART = 6
TWO_AT_A_TIME = ["-n", "2", "--dist", "worksteal"]  # as `make test` runs them

_running: set[subprocess.Popen[bytes]] = set()


@dataclass
class Outcome:
    """What one part came to, and what it was run on."""

    part: str
    passed: bool
    summary: str
    command: str
    date: str
    duration_s: float
    commit: str
    code: str
    figures: list[dict[str, Any]] = field(default_factory=list)


def find_parts() -> dict[str, list[str]]:
    """Each part's name and its pytest arguments."""
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-o", "addopts=-q", "-m", "verify", "tests"]
    listing = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True)
    if listing.returncode not in (0, 5):  # 5: no such tests
        sys.exit(f"the tests cannot be collected:\n{listing.stdout}{listing.stderr}")
    tests: dict[str, list[str]] = {}
    for line in listing.stdout.splitlines():
        if "::" in line:
            tests.setdefault(line.partition("::")[0], []).append(line)
    parts = {QUICK: [*TWO_AT_A_TIME, "tests"]}
    for file, names in sorted(tests.items()):
        part = file.removeprefix("tests/").removesuffix(".py").replace("/", ".")
        if len(names) <= TESTS_PER_PART:
            parts[part] = ["-m", "verify", file]
            continue
        for number, start in enumerate(range(0, len(names), TESTS_PER_PART), 1):
            parts[f"{part}.{number}"] = ["-m", "verify", *names[start : start + TESTS_PER_PART]]
    return parts


def code_fingerprint() -> str:
    """A hash of the code as it lies there, committed or not."""
    listed = _git("ls-files", "-co", "--exclude-standard", "--", *CODE).splitlines()
    digest = hashlib.sha256()
    for name in sorted(listed):
        path = ROOT / name
        if path.is_file():
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def run_part(part: str, arguments: list[str], code: str) -> Outcome:
    """Runs one part as a subprocess; its output goes to a log."""
    command = ["python", "-m", "pytest", "-ra", *map(shlex.quote, arguments)]
    figures = STATE / f"{part}.figures.jsonl"
    figures.unlink(missing_ok=True)
    log = STATE / f"{part}.log"
    begin = time.monotonic()
    with log.open("w") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-ra", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "WHORL_FIGURES": str(figures), "PYTHONUNBUFFERED": "1"},
        )
        _running.add(running)
        code_returned = running.wait()
        _running.discard(running)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return Outcome(
        part=part,
        passed=code_returned == 0,
        summary=re.sub(r"^=+ | =+$", "", lines[-1]) if lines else f"no output, exit code {code_returned}",
        command=" ".join(command),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - begin, 1),
        commit=_git("rev-parse", "--short=12", "HEAD") + ("+" if _git("status", "--porcelain", "--", *CODE) else ""),
        code=code,
        figures=[json.loads(line) for line in figures.read_text().splitlines()] if figures.exists() else [],
    )


def run_parts(parts: dict[str, list[str]], code: str, jobs: int) -> Iterator[Outcome]:
    """Runs parts, ``jobs`` at a time, and yields their outcomes as they come."""
    if QUICK in parts:
        yield run_part(QUICK, parts.pop(QUICK), code)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for future in as_completed([pool.submit(run_part, part, parts[part], code) for part in parts]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def stop(number: int, _: object) -> None:
    """Told to stop: the parts that run go too. Those that passed are kept. pytest is interrupted and not terminated, or
    nobody would end what the tests have started."""
    for running in list(_running):
        running.send_signal(signal.SIGINT)
    sys.exit(128 + number)


def labels(parts: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Each part with its number of all."""
    for number, part in enumerate(parts, 1):
        yield part, f"[{number}/{len(parts)}] {part}"


def load_state() -> dict[str, Outcome]:
    path = STATE / "state.json"
    if not path.exists():
        return {}
    return {part: Outcome(**outcome) for part, outcome in json.loads(path.read_text()).items()}


def save_state(state: dict[str, Outcome]) -> None:
    """Written whole or not at all, after every part."""
    temporary = STATE / "state.json.new"
    temporary.write_text(json.dumps({part: asdict(outcome) for part, outcome in state.items()}, indent=1))
    temporary.replace(STATE / "state.json")


def write_evidence(outcomes: list[Outcome]) -> Path:
    """The page that says what was run, on what, and what came out."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    page = ROOT / "docs" / "results" / f"verify-{today}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    passed = sum(outcome.passed for outcome in outcomes)
    lines = [
        f"# Verification of {today}",
        "",
        f"{passed} of {len(outcomes)} parts passed. Written by `make verify`. `+` after a commit: uncommitted changes.",
        "",
        f"Machine: {_processor()}, {os.cpu_count()} CPUs; Python {platform.python_version()}; {platform.system()}.",
        "",
        "| part | outcome | duration (s) | commit | date (UTC) | summary |",
        "|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        verdict = "passed" if o.passed else "**failed**"
        lines.append(f"| {o.part} | {verdict} | {o.duration_s:g} | {o.commit} | {o.date[:16]} | {o.summary} |")
    if any(outcome.figures for outcome in outcomes):
        lines += ["", "## Figures", "", "| test | figure | value |", "|---|---|---|"]
        for outcome in outcomes:
            lines += [f"| `{f['test']}` | {f['name']} | {_shown(f['value'])} |" for f in outcome.figures]
    lines += ["", "## Commands", "", "```bash", *(outcome.command for outcome in outcomes), "```", ""]
    page.write_text("\n".join(lines))
    return page


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _processor() -> str:
    with Path("/proc/cpuinfo").open() as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run everything, long tests too, part by part.")
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these (default: all)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="parts to run side by side (default: 1)")
    parser.add_argument("--again", action="store_true", help="also run what already passed on this code")
    parser.add_argument("--list", action="store_true", help="list the parts and how they stand")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by a background job and its children

    STATE.mkdir(exist_ok=True)
    parts, state, code = find_parts(), load_state(), code_fingerprint()
    if unknown := set(options.parts) - set(parts):
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    to_run: list[str] = []
    for part, label in labels(parts):
        known = state.get(part)
        green = known is not None and known.passed and known.code == code
        if options.list:
            print(f"{label}: {'passed' if green else 'to be run'}")
        elif options.parts and part not in options.parts:
            continue
        elif green and not options.again:
            print(f"{label}: passed before, on the same code")
        else:
            to_run.append(part)
    for outcome in run_parts({part: parts[part] for part in to_run}, code, options.jobs):
        state[outcome.part] = outcome
        save_state(state)
        verdict = "passed" if outcome.passed else "FAILED"
        label = dict(labels(parts))[outcome.part]
        print(f"{label}: {verdict} in {outcome.duration_s:g} s: {outcome.summary}", flush=True)
        if not outcome.passed:
            log = (STATE / f"{outcome.part}.log").read_text(errors="replace")
            print("".join(log.splitlines(keepends=True)[-30:]))
    if options.list:
        return 0
    outcomes = [state[part] for part in parts if part in state and state[part].code == code]
    print(f"evidence: {write_evidence(outcomes).relative_to(ROOT)}")
    return 0 if len(outcomes) == len(parts) and all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
