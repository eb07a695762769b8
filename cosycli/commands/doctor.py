"""`cosy doctor`: what works here, what does not, and the command that mends it."""

from __future__ import annotations

from dataclasses import asdict

import typer

from cosycli import console
from cosycli.commands.options import JsonOption


def doctor(json: JsonOption = False) -> None:
    """Check everything that speaking depends on. Exit code 1 if `cosy speak -o FILE` would fail."""
    from cosycli.doctor import examine, healthy

    findings = examine()
    if json:
        console.out_json([asdict(finding) for finding in findings])
    else:
        rows = [(finding.check, finding.state, finding.found, finding.mend) for finding in findings]
        console.table("Doctor", ("check", "state", "found", "mend it with"), rows, marked=1)
    raise typer.Exit(0 if healthy(findings) else 1)
