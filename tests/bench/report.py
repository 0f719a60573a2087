"""What the numbers say: rows with their targets, as text and as reStructuredText."""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Results = dict[str, dict[str, list[float]]]
"""By metric and package, ours first: a number for each round."""

WORSE = 0.95
"""A change may make no metric worse than this, as a ratio to the older commit."""

TINY = 1e-6
"""In place of a number that came out as zero: what is beyond 5 ms may be nothing."""


@dataclass(frozen=True)
class Row:
    """A metric, and what was promised for it: so many times better, or an absolute bound."""

    metric: str
    title: str
    more_is_better: bool = False
    times: float | None = None
    at_most: float | None = None
    is_own_ratio: bool = False
    """Two numbers of one package, one by the other: its bound stays against an older commit, too.

    What it is made of are rows of their own, which may not be worse than they were.
    """


ROWS = (
    Row("sequential p50 µs", "sequential add, p50, µs", times=5),
    Row("sequential calls/s", "sequential add, calls/s", True, times=5),
    Row("sequential CPU µs", "server CPU a call, µs", times=8),
    Row("modern p50 µs", "the same in 2026-07-28, p50, µs"),
    Row("modern calls/s", "the same in 2026-07-28, calls/s", True),
    Row("modern CPU µs", "the same in 2026-07-28, CPU a call, µs"),
    Row("pipelined calls/s", "64 in flight, calls/s", True, times=8),
    Row("pipelined CPU µs", "64 in flight, CPU a call, µs"),
    Row("echo MB/s", "1 MiB echo, MB/s", True, times=0.7),
    Row("echo CPU ms", "1 MiB echo, CPU a call, ms"),
    Row("naps wall ms", "50 calls that sleep 100 ms, wall, ms", at_most=110),
    Row("naps ping p50 µs", "pings meanwhile, p50, µs", times=2.5),
    Row("naps ping worst ms", "pings meanwhile, worst, ms", at_most=10),
    Row("list p50 ms", "tools/list of 1,000, p50, ms", times=4),
    Row("list mean ms", "tools/list of 1,000, mean, ms", times=8),
    Row("import ms", "import, ms", times=5),
    Row("start ms", "start to first response, ms", times=3.5),
    Row("memory MiB", "resident memory after the handshake, MiB", times=2.2),
    Row("client p50 µs", "client library, p50, µs", times=1.5),
    Row("client CPU µs", "client library, CPU a call, µs"),
    Row("modern client p50 µs", "client library in 2026-07-28, p50, µs"),
    Row("modern client CPU µs", "client library in 2026-07-28, CPU a call, µs"),
    Row("http json p50 µs", "HTTP, sequential add, JSON, p50, µs", times=4.5),
    Row("http json CPU µs", "HTTP, server CPU a call, µs", times=5),
    Row("http modern p50 µs", "HTTP, the same in 2026-07-28, p50, µs", times=4.5),
    Row("http modern CPU µs", "HTTP, the same in 2026-07-28, CPU a call, µs", times=5),
    Row("http stream p50 µs", "HTTP, sequential add, event stream, p50, µs", times=9),
    Row("http stream CPU µs", "HTTP, event stream, server CPU a call, µs", times=5),
    Row("http json first p50 µs", "HTTP, first call of a tool, JSON, p50, µs", times=4.5),
    Row(
        "http json first by later",
        "HTTP, first call of a tool by its thousandth, JSON",
        at_most=1.1,
        is_own_ratio=True,
    ),
    Row("http modern first p50 µs", "HTTP, first call of a tool in 2026-07-28, p50, µs", times=4.5),
    Row(
        "http modern first by later",
        "HTTP, first call of a tool by its thousandth, 2026-07-28",
        at_most=1.1,
        is_own_ratio=True,
    ),
    Row("http stream first p50 µs", "HTTP, first call of a tool, event stream, p50, µs", times=9),
    Row(
        "http stream first by later",
        "HTTP, first call of a tool by its thousandth, event stream",
        at_most=1.1,
        is_own_ratio=True,
    ),
    Row("http cold first ms", "HTTP, first call of a fresh server, best of 5, JSON, ms", times=0.5),
    Row("http cold early p50 µs", "HTTP, calls 2 to 20 of a fresh server, JSON, p50, µs", times=4.5),
    Row("http report p50 µs", "HTTP, a tool with a Context reports once, event stream, p50, µs", times=4),
    Row("http report CPU µs", "HTTP, a tool with a Context reports once, server CPU a call, µs"),
    Row("http json x8 calls/s", "HTTP, 8 connections, JSON, calls/s", True, times=5),
    Row("http json x8 CPU µs", "HTTP, 8 connections, JSON, CPU a call, µs"),
    Row("http stream x8 calls/s", "HTTP, 8 connections, event stream, calls/s", True, times=7),
    Row("http stream x8 CPU µs", "HTTP, 8 connections, event stream, CPU a call, µs"),
    Row("http wait json calls/s", "HTTP, 32 connections, 5 ms of sleep, JSON, calls/s", True),
    Row("http wait json p50 ms", "HTTP, 32 connections, 5 ms of sleep, JSON, p50, ms"),
    Row("http wait json CPU µs", "HTTP, 32 connections, 5 ms of sleep, JSON, CPU a call, µs"),
    Row("http wait json quick calls/s", "HTTP, 32 connections, add, JSON, calls/s", True),
    Row(
        "http wait json extra by quick",
        "HTTP, 32 connections, JSON, what is beyond the 5 ms, by what add takes",
        at_most=1,
        is_own_ratio=True,
    ),
    Row("http wait stream calls/s", "HTTP, 32 connections, 5 ms of sleep, event stream, calls/s", True),
    Row("http wait stream p50 ms", "HTTP, 32 connections, 5 ms of sleep, event stream, p50, ms"),
    Row("http wait stream CPU µs", "HTTP, 32 connections, 5 ms of sleep, event stream, CPU a call, µs"),
    Row("http wait stream quick calls/s", "HTTP, 32 connections, add, event stream, calls/s", True),
    Row(
        "http wait stream extra by quick",
        "HTTP, 32 connections, event stream, what is beyond the 5 ms, by what add takes",
        at_most=1,
        is_own_ratio=True,
    ),
    Row("http progress/s", "HTTP, 1,000 progress notifications in one call, a second", True, times=10),
    Row("http session KiB", "HTTP, memory of an idle session, KiB", times=5),
    Row("http stream KiB", "HTTP, memory of an open stream, KiB", times=2),
    Row("http client json p50 µs", "HTTP client library, JSON, p50, µs", times=2),
    Row("http client json CPU µs", "HTTP client library, JSON, CPU a call, µs"),
    Row("http client stream p50 µs", "HTTP client library, event stream, p50, µs", times=3),
    Row("http client stream CPU µs", "HTTP client library, event stream, CPU a call, µs"),
    Row("http client modern p50 µs", "HTTP client library in 2026-07-28, p50, µs", times=2),
    Row("http client modern CPU µs", "HTTP client library in 2026-07-28, CPU a call, µs"),
    *(
        Row(
            f"tasks {store} {act} by call",
            f"tasks, {title}: {act}, by a plain call",
            at_most=bound,
            is_own_ratio=True,
        )
        for store, title, bound in (("memory", "memory store", 1.5), ("sqlite", "SQLite store", 4))
        for act in ("create", "get", "result")
    ),
)
HEADINGS = ("metric", "mcp_ref", "mcp", "times better", "target", "met")
AGAINST_HEADINGS = ("metric", "now", "then", "times better", "target", "met")


@dataclass(frozen=True)
class Finding:
    """A row with its numbers: medians over the rounds.

    The ratio is the median of the rounds' own ratios: what slows a machine down for a while slows both
    packages in the same round.
    """

    row: Row
    ours: float
    theirs: float
    ratio: float
    """How many times better than what we are measured beside."""
    worst: float
    """Ours, in the round that was worst."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.row.times is not None:
            return self.ratio >= self.row.times
        return None if self.row.at_most is None else self.ours <= self.row.at_most

    def cells(self) -> tuple[str, ...]:
        """The row as it is printed."""
        target = "-"
        if self.row.times is not None:
            target = f"x{self.row.times:g}"
        elif self.row.at_most is not None:
            target = f"<= {self.row.at_most:g}"
        met = {None: "-", True: "yes", False: "NO"}[self.met]
        ratio = "-" if math.isnan(self.ratio) else f"x{self.ratio:.2f}"
        return self.row.title, _number(self.ours), _number(self.theirs), ratio, target, met


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def findings(results: Results, against: bool = False) -> list[Finding]:
    """The rows of which something was measured on both sides, with what was promised for them.

    `against` an older commit the promise is the same for each row: not to be worse than it was.
    """
    rows = [_against(row) for row in ROWS] if against else ROWS
    return [_finding(row, results[row.metric]) for row in rows if _has_two_sides(results, row)]


def _against(row: Row) -> Row:
    return row if row.is_own_ratio else replace(row, times=WORSE, at_most=None)


def _has_two_sides(results: Results, row: Row) -> bool:
    """A ratio of our own numbers needs no other side."""
    sides = results.get(row.metric, {})
    return (all(sides.values()) and bool(sides)) or (row.is_own_ratio and bool(sides.get("ours")))


def left_out(results: Results) -> list[str]:
    """The rows that could be measured on one side only: an older commit's programs lack what they need."""
    return [row.title for row in ROWS if row.metric in results and not _has_two_sides(results, row)]


def _finding(row: Row, numbers: dict[str, list[float]]) -> Finding:
    ours, theirs = numbers.values()
    theirs = theirs or [math.nan] * len(ours)
    pairs = zip(ours, theirs, strict=True)
    ratios = [a / b if row.more_is_better else b / max(a, TINY) for a, b in pairs]
    worst = min(ours) if row.more_is_better else max(ours)
    median = statistics.median
    return Finding(row, median(ours), median(theirs), median(ratios), worst)


def table(found: Iterable[Finding], headings: tuple[str, ...] = HEADINGS) -> str:
    """The rows for a terminal."""
    rows = [headings, *(finding.cells() for finding in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def verdict(found: list[Finding]) -> str:
    """What was missed, and how near to its bound a metric came that has one."""
    missed = [finding.row.title for finding in found if finding.met is False]
    lines = [f"missed: {'; '.join(missed) or 'nothing'}"]
    for finding in found:
        if finding.row.at_most is not None:
            lines.append(f"{finding.row.title}: {_number(finding.worst)} in the worst round")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """Where this was measured."""
    packages = ("mcp", "pydantic", "anyio", "uvicorn", "jsonschema", "werkzeug", "requests")
    from mcp_ref import __version__

    versions = {"mcp_ref": __version__} | {name: importlib.metadata.version(name) for name in packages}
    return {
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": versions,
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe(where: dict[str, Any], rounds: int) -> str:
    """The machine in a sentence."""
    packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    cores = f"{where['cores']} core" + ("s" if where["cores"] > 1 else "")
    return (
        f"Measured on {where['date']}: {cores} ({where['processor']}), {where['system']}, "
        f"{where['python']}; {packages}. "
        f"Medians of {rounds} interleaved rounds; a ratio is the median of the rounds' own ratios."
    )


def rst(found: Iterable[Finding], where: dict[str, Any], rounds: int) -> str:
    """The table as a fragment for the documentation."""
    lines = [describe(where, rounds), "", ".. list-table::", "   :header-rows: 1", ""]
    for cells in (HEADINGS, *(finding.cells() for finding in found)):
        first, *others = cells
        lines.append(f"   * - {first}")
        lines += [f"     - {'–' if cell == '-' else cell}" for cell in others]
    return "\n".join(lines) + "\n"
