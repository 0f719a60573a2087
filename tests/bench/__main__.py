"""This package beside the official SDK, in one interleaved run: `python tests/bench`, or `make bench`.

Every round measures every metric on both packages, one right after the other and in turns first, so
that a machine whose speed changes meanwhile is as unkind to the one as to the other. Each group of
metrics starts new processes, warms them up and then measures. The peer in the middle is neither
package: see wire.py. Needs the extra `peer`, and Linux.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent.parent))

import http_measure
import measure
import report
from wire import PACKAGES

GROUPS = measure.GROUPS + http_measure.GROUPS


def main() -> int:
    """Measure, print, and say by the exit code whether targets were missed, if asked to."""
    options = _options()
    if not sys.platform.startswith("linux"):
        print("CPU time and memory of other processes are read the way Linux has them", file=sys.stderr)
        return 2
    if importlib.util.find_spec("mcp") is None:
        print('the official SDK is not here: pip install ".[peer]"', file=sys.stderr)
        return 2
    if options.pin:
        measure.pin()
    size = measure.QUICK if options.quick else measure.Size()
    began = time.monotonic()
    results = _measured([g for g in GROUPS if g.name.startswith(options.only)], size)
    found, where = report.findings(results), report.machine()
    print(report.describe(where, size.rounds), report.table(found), report.verdict(found), sep="\n\n")
    print(f"{time.monotonic() - began:.0f} s")
    if options.json is not None:
        document = {"machine": where, "size": asdict(size), "results": results}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.rst is not None:
        options.rst.write_text(report.rst(found, where, size.rounds), encoding="utf-8")
    return 1 if options.gate and any(finding.met is False for finding in found) else 0


def _measured(groups: list[measure.Group], size: measure.Size) -> report.Results:
    results: report.Results = {}
    for package in PACKAGES:
        measure.importing(package, measure.QUICK)  # whatever was not compiled yet is compiled now
    for number in range(size.rounds):
        order = PACKAGES if number % 2 == 0 else PACKAGES[::-1]
        for group in groups:
            _say(f"\rround {number + 1} of {size.rounds}: {group.name:<14}")
            for package in order:
                for metric, value in measure.once(group, package, size).items():
                    results.setdefault(metric, {p: [] for p in PACKAGES})[package].append(value)
    _say("\r" + 40 * " " + "\r")
    return results


def _say(where: str) -> None:
    """How far we are, for somebody who watches."""
    if sys.stderr.isatty():
        print(where, end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/bench", description="mcp_ref beside the official SDK")
    parser.add_argument("--quick", action="store_true", help="less of everything: under two minutes")
    names = ", ".join(group.name for group in GROUPS)
    parser.add_argument("--only", default="", metavar="NAME", help=f"the groups that begin so, of {names}")
    parser.add_argument("--pin", action="store_true", help="everything on one core: steadier, less like life")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the number of every round")
    parser.add_argument("--rst", type=Path, metavar="FILE", help="write the table for the documentation")
    parser.add_argument("--gate", action="store_true", help="exit with 1 if a target is missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
