"""``whorl doctor``: what works on this machine, what is missing, and the line that mends it."""

from __future__ import annotations

import argparse

from whorl.cli.probes import all_probes
from whorl.errors import EXIT_DONE, EXIT_FAILED


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Probe everything and print a line each; 0 unless something that every run needs is missing."""
    findings = []
    for probe in all_probes():
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
