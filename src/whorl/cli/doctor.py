"""``whorl doctor``: what works on this machine, what is missing, and the line that mends it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from whorl.cli.probes import Finding, all_probes
from whorl.errors import EXIT_DONE, EXIT_FAILED, BadInputError, MissingExtraError

SLOTS = 72
"""As many as in the study of Ray on two Cray nodes, whose 72 one-second tasks took 1.0508 s."""


def configure(parser: argparse.ArgumentParser) -> None:
    """What to look at."""
    parser.add_argument("--engine", choices=("ray",), help="Measure what this engine costs, beside the usual probes.")
    parser.add_argument("--slots", type=int, default=SLOTS, help="ray: worker processes to measure with.")
    parser.add_argument("--address", default="", help="ray: the cluster to measure. Default: a private one.")
    parser.add_argument("--token-file", default="", help="ray: the file with that cluster's token.")


def run(arguments: argparse.Namespace) -> int:
    """Probe everything and print a line each; 0 unless something that every run needs is missing."""
    probes = all_probes()
    if arguments.engine == "ray":
        probes.append(lambda: _ray(arguments))
    findings = []
    for probe in probes:
        for finding in probe():
            findings.append(finding)
            if not (arguments.quiet and finding.state == "ok"):
                print(f"{finding.state:<4}  {finding.name:<20}  {finding.detail}".rstrip(), flush=True)
    failed = [finding.name for finding in findings if finding.state == "bad"]
    warned = sum(finding.state == "warn" for finding in findings)
    if failed:
        print(f"not usable: {', '.join(failed)}")
        return EXIT_FAILED
    print("usable" + (f", with {warned} warning{'s' * (warned > 1)}" if warned else ""))
    return EXIT_DONE


def _ray(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Measured in a process of its own; each finding as it comes."""
    import importlib.util

    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("doctor --engine ray needs Ray: pip install 'whorl[ray]'")
    if arguments.slots < 1:
        raise BadInputError(f"--slots {arguments.slots}: must be at least 1")
    command = [sys.executable, "-m", "whorl.engines.ray.measure", str(arguments.slots)]
    if arguments.address:
        if arguments.token_file:
            from whorl.engines.ray.private import check_token_file

            check_token_file(arguments.token_file)
        command += [arguments.address, arguments.token_file]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as measuring,
    ):
        assert measuring.stdout is not None
        for line in measuring.stdout:
            if line.startswith("{"):
                said = json.loads(line)
                detail = said["found"] + ("; slow" if said["slow"] else "")
                yield Finding("warn" if said["slow"] else "ok", f"ray, {said['name']}", detail)
        if measuring.wait():  # which has a deadline of its own
            errors.seek(0)
            said = errors.read().strip().splitlines()
            yield Finding("bad", "ray", said[-1] if said else "the measurement ended without a word")
