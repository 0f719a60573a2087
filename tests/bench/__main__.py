"""This package beside the official SDK, in one interleaved run: `python tests/bench`, or `make bench`.

Every round measures every metric on both packages, one right after the other and in turns first, so
that a machine whose speed changes meanwhile is as unkind to the one as to the other. Each group of
metrics starts new processes, warms them up and then measures. The peer in the middle is neither
package: see wire.py. Needs the extra `peer`, and Linux.

`python tests/bench --against REV` measures the package beside itself as it was at an older commit, with
the same programs: what a change made slower, and by how much. With `--gate` no metric may be more than
5 % worse; one that seems to be is measured again, for twice as many rounds, before it counts. A ratio of
two numbers of the same package keeps its own bound. What the programs of the older commit cannot measure
is left out, and named.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent.parent))

import http_measure
import measure
import report
from wire import OFFICIAL, OURS, ROOT, Package

GROUPS = measure.GROUPS + http_measure.GROUPS


def main() -> int:
    """Measure, print, and say by the exit code whether targets were missed, if asked to."""
    options = _options()
    if not sys.platform.startswith("linux"):
        print("CPU time and memory of other processes are read the way Linux has them", file=sys.stderr)
        return 2
    if options.against is None and importlib.util.find_spec("mcp") is None:
        print('the official SDK is not here: pip install ".[peer]"', file=sys.stderr)
        return 2
    if options.pin:
        measure.pin()
    size = measure.QUICK if options.quick else measure.Size()
    groups = [g for g in GROUPS if g.name.startswith(options.only)]
    began = time.monotonic()
    if options.against is None:
        results, headings = _all_of(_measured(groups, size, OFFICIAL)), report.HEADINGS
    else:
        results, headings = _compared(groups, size, options.against), report.AGAINST_HEADINGS
    found, where = report.findings(results, options.against is not None), report.machine()
    print(
        report.describe(where, size.rounds), report.table(found, headings), report.verdict(found), sep="\n\n"
    )
    for title in report.left_out(results):
        print(f"not measured, since one side has no such tool: {title}")
    print(f"{time.monotonic() - began:.0f} s")
    if options.json is not None:
        document = {"machine": where, "size": asdict(size), "results": results}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.rst is not None:
        options.rst.write_text(report.rst(found, where, size.rounds), encoding="utf-8")
    return 1 if options.gate and (not found or any(finding.met is False for finding in found)) else 0


def _measured(groups: list[measure.Group], size: measure.Size, other: Package) -> dict[str, report.Results]:
    """By the name of the group: its numbers, in interleaved rounds."""
    packages = {"ours": OURS, "theirs": other}
    results: dict[str, report.Results] = {group.name: {} for group in groups}
    for package in packages.values():
        measure.importing(package, measure.QUICK)  # whatever was not compiled yet is compiled now
    for number in range(size.rounds):
        order = list(packages) if number % 2 == 0 else list(packages)[::-1]
        for group in groups:
            _say(f"\rround {number + 1} of {size.rounds}: {group.name:<14}")
            for side in order:
                for metric, value in measure.once(group, packages[side], size).items():
                    results[group.name].setdefault(metric, {"ours": [], "theirs": []})[side].append(value)
    _say("\r" + 40 * " " + "\r")
    return results


def _all_of(results: dict[str, report.Results]) -> report.Results:
    return {metric: numbers for group in results.values() for metric, numbers in group.items()}


def _compared(groups: list[measure.Group], size: measure.Size, revision: str) -> report.Results:
    """The package beside itself at an older commit.

    Of some forty metrics on a shared machine one or two are always unlucky, so what missed is measured
    once more, and the second measurement decides.
    """
    with _tree_of(revision) as tree:
        then = Package("mcp_ref", tree)
        results = _measured(groups, size, then)
        missed = {f.row.metric for f in report.findings(_all_of(results), against=True) if f.met is False}
        suspects = [group for group in groups if missed & results[group.name].keys()]
        again = _all_of(_measured(suspects, replace(size, rounds=2 * size.rounds), then)) if suspects else {}
    return _all_of(results) | {metric: numbers for metric, numbers in again.items() if metric in missed}


@contextlib.contextmanager
def _tree_of(revision: str) -> Iterator[Path]:
    """The package as a commit has it, with its peers. Raises CalledProcessError for no commit."""
    command = ["git", "-C", str(ROOT), "archive", revision, "mcp_ref", "tests/bench/peers"]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tempfile.TemporaryDirectory(prefix="mcp_ref-bench-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as found:
            found.extractall(folder, filter="data")
        yield Path(folder)


def _say(where: str) -> None:
    """How far we are, for somebody who watches."""
    if sys.stderr.isatty():
        print(where, end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/bench", description="mcp_ref beside the official SDK")
    parser.add_argument("--quick", action="store_true", help="less of everything: about two minutes")
    names = ", ".join(group.name for group in GROUPS)
    parser.add_argument("--only", default="", metavar="NAME", help=f"the groups that begin so, of {names}")
    parser.add_argument(
        "--against", metavar="REV", help="beside the package at that commit, instead of the SDK"
    )
    parser.add_argument("--pin", action="store_true", help="everything on one core: steadier, less like life")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the number of every round")
    parser.add_argument("--rst", type=Path, metavar="FILE", help="write the table for the documentation")
    gate = "exit with 1 if a target is missed, or nothing was measured"
    parser.add_argument("--gate", action="store_true", help=gate)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
