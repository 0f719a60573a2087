"""What the suite has written, held against what it is to find: expected.tsv.

The exit code of the suite says little: a client that does nothing passes some scenarios. So each scenario
is to have as many checks that succeeded as expected.tsv says for its revision, none that failed, none with
a warning; and a scenario that nobody expected, or that left no results, is a fault as well.

A directory of results has one of these per scenario, named after it and the time:

    [SIDE-]NAME-TIME/checks.json        [{id, status, errorMessage, ...}]
    NAME-TIME/stdout.txt                of a client: what it printed
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from everything_client import DONE

TABLE = Path(__file__).with_name("expected.tsv")
NOT_COUNTED = ("sep-2640-",)
"""Scenarios of what this package does not do yet: skills."""

OF_EXTENSIONS = ("tasks-",)
"""Scenarios of extensions. The suite runs them with the requirements of a revision, and not with "all"."""

_TIME = re.compile(r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z$")
_GOOD = {"SUCCESS", "INFO", "SKIPPED"}


class Verdict(NamedTuple):
    """What became of one scenario."""

    scenario: str
    succeeded: int
    expected: int
    faults: list[str]


class Report(NamedTuple):
    """What became of a leg."""

    verdicts: list[Verdict]
    not_counted: list[str]

    @property
    def faults(self) -> list[str]:
        return [f"{v.scenario}: {fault}" for v in self.verdicts for fault in v.faults]


def expected(side: str, revision: str, *, extensions: bool = True) -> dict[str, int]:
    """How many checks succeed in which scenario; 0 where the suite skips them all."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t") if row["side"] == side]
    wanted = {row["scenario"]: int(row[revision]) for row in rows if row[revision] != "-"}
    return {name: n for name, n in wanted.items() if extensions or not name.startswith(OF_EXTENSIONS)}


def judge(results: Path, side: str, wanted: Mapping[str, int]) -> Report:
    """All that one leg has written."""
    verdicts, not_counted, missing = [], [], dict(wanted)
    for scenario, directory in sorted(_scenarios(results, side)):
        if scenario.startswith(NOT_COUNTED):
            not_counted.append(scenario)
        elif scenario not in wanted:
            verdicts.append(Verdict(scenario, 0, 0, ["nobody expected this scenario"]))
        else:
            missing.pop(scenario, None)
            verdicts.append(_verdict(directory, scenario, wanted[scenario], side))
    for scenario, least in missing.items():
        verdicts.append(Verdict(scenario, 0, least, ["it left no results"]))
    return Report(sorted(verdicts), not_counted)


def _scenarios(results: Path, side: str) -> Iterator[tuple[str, Path]]:
    """Each scenario that has a directory; the name of one of a client may have a slash in it."""
    for directory in results.rglob("*"):
        if directory.is_dir() and _TIME.search(directory.name):
            name = _TIME.sub("", directory.relative_to(results).as_posix())
            yield name if side == "client" else name.removeprefix(f"{side}-"), directory


def _verdict(directory: Path, scenario: str, least: int, side: str) -> Verdict:
    try:
        checks = json.loads((directory / "checks.json").read_text(encoding="utf-8"))
        count = Counter(check["status"] for check in checks)
    except (OSError, ValueError, TypeError, KeyError) as problem:
        return Verdict(scenario, 0, least, [f"its results cannot be read: {problem!r}"])
    faults = [_said(check) for check in checks if check["status"] not in _GOOD]
    if count["SUCCESS"] < least:
        faults.append(f"{count['SUCCESS']} checks succeeded, of {least}")
    if side == "client" and not _ended_well(directory):
        faults.append("the client did not come to its end: see its stderr.txt")
    return Verdict(scenario, count["SUCCESS"], least, faults)


def _said(check: Mapping[str, Any]) -> str:
    return f"{check['status']} {check.get('id')}: {check.get('errorMessage') or 'no reason given'}"


def _ended_well(directory: Path) -> bool:
    """The suite does not say how its client ended: the client does."""
    try:
        lines = (directory / "stdout.txt").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return False
    return DONE in lines[-2:]
