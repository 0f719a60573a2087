"""Every clause of the specification: the code that keeps it, the tests that prove it, what is missing.

    python tests/clauses.py                       # runs the tests that are marked, prints all pages
    python tests/clauses.py --page server/tools --missing
    python tests/clauses.py --no-run              # believes the marks: fast, for in between
    python tests/clauses.py --results junit.xml   # takes the outcomes of a run that was

The registry, docs/clauses.tsv, has a line per clause: id, page, section, the revisions it holds in, its
level, who must keep it, whether a library can (`kind`), and the module that does. Two kinds of
marks point at it:

    # spec: <id>, <id>                    in the package, at the line that keeps the clause
    @pytest.mark.spec("<id>", "<id>")     in the tests, at the test that proves it

tests/marks_run.py finds the lines that none of their own tests runs. The first kind stands in the modules of
the clause's page, or docs/clause_homes.tsv says why not (tests/test_tree.py).

A MUST or MUST NOT that a library can keep is *missing* unless a test proves it, that is, has its id and
passes. It is *waiting* as long as its module is not there, and becomes missing by itself the day the
module lands. Clauses that repeat another (`[same: <id>]`) are counted there; those of interim drafts,
which are in no revision, nowhere.

Where a decision of ours departs from a clause, docs/waivers.tsv says so, with the reason and with what a
user sees. A waived clause is neither missing nor proved, but *waived*, and neither kind of mark may name
it, unless the waiver is for some of its revisions only.

Exit status: 1 if a clause of PAGES is missing, a marked test failed, an id is unknown, or a waiver is faulty;
the last two are told before anything is run; else 0.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
LEVELS = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY")
KINDS = ("library", "application", "process")

PAGES = (
    "architecture/index",
    "basic/index",
    "basic/versioning",
    "basic/lifecycle",
    "basic/utilities/ping",
    "basic/utilities/tasks",
    "basic/patterns/index",
    "basic/patterns/cancellation",
    "basic/patterns/progress",
    "basic/patterns/mrtr",
    "basic/patterns/subscriptions",
    "basic/transports/index",
    "basic/transports/stdio",
    "basic/transports/streamable-http",
    "basic/authorization/index",
    "basic/authorization/authorization-server-discovery",
    "basic/authorization/client-registration",
    "basic/authorization/security-considerations",
    "server/discover",
    "server/prompts",
    "server/resources",
    "server/tools",
    "server/utilities/completion",
    "server/utilities/pagination",
    "server/utilities/logging",
    "server/utilities/caching",
    "client/elicitation",
    "client/roots",
    "client/sampling",
    "extensions/dpop",
    "extensions/enterprise-managed-authorization",
    "extensions/oauth-client-credentials",
    "extensions/workload-identity",
    "extensions/tasks",
    "schema",
    "docs/security_best_practices",
)
"""Pages that are done: nothing may be missing on them."""

# Modules that hold the shapes of their page and nothing that acts on them yet. The change that brings the
# rest of a page takes its line out.
SHAPES_ONLY: frozenset[str] = frozenset()

# -------------------------------------------------------------------------- the registry


class Clause(NamedTuple):
    """A line of the registry. Party, level and statement read as a sentence."""

    id: str
    page: str
    section: str
    since: str
    until: str
    level: str
    party: str
    kind: str
    module: str
    statement: str

    @property
    def same(self) -> str | None:
        """The clause that this one repeats."""
        found = re.search(r"\[same: ([^\]]+)\]", self.statement)
        return found[1] if found else None

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions it holds in; none for one of an interim draft."""
        if self.since not in REVISIONS:
            return ()
        first, last = REVISIONS.index(self.since), REVISIONS.index(self.until or REVISIONS[-1])
        return REVISIONS[first : last + 1]

    @property
    def counts(self) -> bool:
        """Whether it is a clause of its own that a library can keep."""
        return self.kind == "library" and self.same is None and bool(self.revisions)

    @property
    def binding(self) -> bool:
        """Whether it must be proved."""
        return self.counts and self.level in ("MUST", "MUST NOT")


def read_registry(path: Path) -> dict[str, Clause]:
    """The clauses by their ids, in the order of the file. Raises ValueError for an id that is there twice."""
    clauses: dict[str, Clause] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            clause = Clause(**row)
            if clause.id in clauses:
                raise ValueError(f"{path.name}: {clause.id} is there twice")
            clauses[clause.id] = clause
    return clauses


# --------------------------------------------------------------------------- the waivers


class Waiver(NamedTuple):
    """A line of docs/waivers.tsv: a clause that we do not keep, and why."""

    clause: str
    revisions: str
    """Those it is waived in, with spaces between them. Empty: all that the clause holds in."""
    reason: str
    seen: str
    """What a user sees of it."""


def read_waivers(path: Path) -> list[Waiver]:
    """The waivers, in the order of the file; none if there is no such file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Waiver(*(row + [""] * 4)[:4]) for row in rows][1:]


def faults_of_waivers(waivers: Iterable[Waiver], clauses: Mapping[str, Clause]) -> Iterator[str]:
    """What is wrong with the waivers by themselves."""
    seen = set()
    for waiver in waivers:
        clause = clauses.get(waiver.clause)
        if clause is None:
            yield f"{waiver.clause}: the registry has no such clause"
        elif not clause.counts:
            yield f"{waiver.clause}: only a clause of its own that a library can keep is waived"
        elif not set(waiver.revisions.split()) <= set(clause.revisions):
            yield f"{waiver.clause}: it does not hold in all of {waiver.revisions}"
        if waiver.clause in seen:
            yield f"{waiver.clause}: it is waived twice"
        if not waiver.reason.strip() or not waiver.seen.strip():
            yield f"{waiver.clause}: a waiver has a reason, and says what a user sees"
        seen.add(waiver.clause)


class Waived:
    """What is waived, by clause and revision."""

    def __init__(self, waivers: Iterable[Waiver], clauses: Mapping[str, Clause]) -> None:
        self._revisions = {
            waiver.clause: set(waiver.revisions.split() or clauses[waiver.clause].revisions)
            for waiver in waivers
        }
        self.wholly = {i for i, waived in self._revisions.items() if waived == set(clauses[i].revisions)}

    def in_revision(self, revision: str) -> set[str]:
        """The clauses that are waived in this revision."""
        return {clause for clause, revisions in self._revisions.items() if revision in revisions}


def is_there(module: str, package: Path) -> bool:
    """Whether the package has this module, with more than the shapes of its page."""
    if module in SHAPES_ONLY:
        return False
    return (package / f"{module}.py").is_file() or (package / module / "__init__.py").is_file()


# ----------------------------------------------------------------------------- the marks

Places = dict[str, list[str]]
"""Where each id is mentioned."""

COMMENT = re.compile(r"# spec:\s*([\w./-]+(?:,\s*[\w./-]+)*)")


def marks_in_code(package: Path) -> Places:
    """Ids in `# spec:` comments, with `module.py:line`."""
    places: Places = {}
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for found in COMMENT.finditer(line):
                for clause in re.split(r",\s*", found[1]):
                    places.setdefault(clause, []).append(f"{where}:{number}")
    return places


def marks_in_tests(tests: Path) -> Places:
    """Ids in `pytest.mark.spec(...)`, with `test_file.py::test`, as the text of the files has them."""
    places: Places = {}
    for path in sorted(tests.rglob("test_*.py")):
        where = path.relative_to(tests).as_posix()
        for name, clause in _marks(ast.parse(path.read_text(encoding="utf-8")), ""):
            places.setdefault(clause, []).append(f"{where}{name}")
    return places


def _marks(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """The name of the test and the id, for each mark below a node."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        name = f"{name}::{node.name}"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec":
        for argument in node.args:
            if isinstance(argument, ast.Constant):
                yield name, str(argument.value)
    for child in ast.iter_child_nodes(node):
        yield from _marks(child, name)


def unknown(clauses: Mapping[str, Clause], *marks: Places) -> list[str]:
    """Marks that no line of the registry answers to."""
    return [
        f"{place}: {clause}"
        for places in marks
        for clause, where in places.items()
        if clause not in clauses
        for place in where
    ]


def marked_but_waived(clauses: Mapping[str, Clause], waived: Waived, *marks: Places) -> list[str]:
    """Marks of clauses that are waived in all their revisions: both cannot be so."""
    return [
        f"{place}: {clause}"
        for places in marks
        for clause, where in where_they_count(clauses, places).items()
        if clause in waived.wholly
        for place in where
    ]


def where_they_count(clauses: Mapping[str, Clause], places: Places) -> Places:
    """Marks of a clause that repeats another, moved to that one."""
    moved: Places = {}
    for name, where in places.items():
        clause = clauses.get(name)
        moved.setdefault(clause.same or name if clause else name, []).extend(where)
    return moved


# -------------------------------------------------------------------------- the outcomes


def run_marked(root: Path) -> tuple[Places, bool]:
    """Run the marked tests. Gives what they proved, and whether all passed."""
    with tempfile.TemporaryDirectory(prefix="clauses-") as directory:
        results = Path(directory) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "spec", f"--junitxml={results}"]
        run = subprocess.run([*command, str(root / "tests")], cwd=root, stdout=2, check=False)
        if not results.is_file():
            raise SystemExit(f"the tests could not be run: pytest ended with {run.returncode}")
        return read_outcomes(results), run.returncode in (0, 5)  # 5: there are none


def read_outcomes(results: Path) -> Places:
    """The proved ids, with their tests, from pytest's --junitxml.

    conftest.py has put the ids of each test's marks into its properties. One test that did not pass
    is enough to unprove a clause.
    """
    proved: Places = {}
    failed: set[str] = set()
    for case in xml.etree.ElementTree.parse(results).getroot().iter("testcase"):
        ids = [p.get("value", "") for p in case.iter("property") if p.get("name") == "spec"]
        if any(case.find(fault) is not None for fault in ("failure", "error", "skipped")):
            failed.update(ids)
        for clause in ids:
            proved.setdefault(clause, []).append(f"{case.get('classname')}::{case.get('name')}")
    return {clause: tests for clause, tests in proved.items() if clause not in failed}


# ---------------------------------------------------------------------------- the report


class Count(NamedTuple):
    """One line of the table: a page in a revision."""

    page: str
    revision: str
    clauses: int
    code: int
    proved: int
    waived: int
    missing: int
    waiting: int


class Report:
    """What the registry, the marks, the waivers and the outcomes say together."""

    def __init__(
        self, clauses: Mapping[str, Clause], package: Path, code: Places, proved: Places, waived: Waived
    ) -> None:
        self.clauses = clauses
        self.code = where_they_count(clauses, code)
        self.proved = where_they_count(clauses, proved)
        self.waived = waived
        kept = self.proved.keys() | waived.wholly
        unproved = [c for c in clauses.values() if c.binding and c.id not in kept]
        self.missing = {c.id for c in unproved if is_there(c.module, package)}
        self.waiting = {c.id for c in unproved} - self.missing

    def of(self, page: str) -> list[Clause]:
        """The clauses of a page that count."""
        return [c for c in self.clauses.values() if c.page == page and c.counts]

    def pages(self) -> list[str]:
        """All pages in the order of the registry."""
        return list(dict.fromkeys(c.page for c in self.clauses.values() if c.counts))

    def count(self, page: str) -> Iterator[Count]:
        """The lines of a page, one per revision that has it."""
        for revision in REVISIONS:
            held = {c.id for c in self.of(page) if revision in c.revisions}
            if held:
                waived = held & self.waived.in_revision(revision)
                sets = (self.code.keys(), self.proved.keys(), self.missing, self.waiting)
                code, proved, missing, waiting = (len((held - waived) & ids) for ids in sets)
                yield Count(page, revision, len(held), code, proved, len(waived), missing, waiting)

    def missing_of(self, pages: Iterable[str]) -> list[Clause]:
        """What is missing on these pages."""
        wanted = set(pages)
        return [self.clauses[i] for i in self.clauses if i in self.missing and self.clauses[i].page in wanted]


def as_text(counts: Iterable[Count]) -> str:
    """The table for a terminal."""
    form = "{:45}{:12}{:>8}{:>6}{:>8}{:>8}{:>9}{:>9}"
    table, page = [form.format(*Count._fields)], None
    for count in counts:
        table.append(form.format(count.page if count.page != page else "", *count[1:]))
        page = count.page
    return "\n".join(table)


def as_rst(counts: Iterable[Count]) -> str:
    """The table for a page of the docs."""
    head = [".. csv-table::", f"   :header: {', '.join(Count._fields)}", ""]
    return "\n".join([*head, *("   " + ", ".join(map(str, count)) for count in counts)])


def sentence(clause: Clause) -> str:
    """A missing clause, to be read."""
    return f"{clause.id}\n    {clause.party} {clause.level}: {clause.statement} ({clause.module})"


def summary(report: Report, name: str, pages: Iterable[str]) -> str:
    """One line for some pages."""
    wanted = set(pages)
    binding = {c.id for c in report.clauses.values() if c.page in wanted and c.binding}
    proved, waived = binding & report.proved.keys(), binding & report.waived.wholly
    return (
        f"{name}: {len(binding)} clauses must be kept: {len(proved)} proved "
        f"({len(proved - report.code.keys())} without a mark in the code), "
        f"{len(waived)} waived, {len(binding & report.missing)} missing, "
        f"{len(binding & report.waiting)} waiting for their modules"
    )


def say(report: Report, pages: list[str], options: argparse.Namespace) -> None:
    """Print what was asked for."""
    counts = [count for page in pages for count in report.count(page)]
    if options.format == "rst":
        print(as_rst(counts))
        return
    if not options.missing:
        print(as_text(counts), end="\n\n")
    groups = {
        "pages that are done": [page for page in pages if page in PAGES],
        "pages still to come": [page for page in pages if page not in PAGES],
    }
    for name, group in groups.items():
        for clause in report.missing_of(group):
            print(sentence(clause) if options.missing else f"missing: {clause.id}")
        if group:
            print(summary(report, name, group))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="The specification's clauses: code, tests, what is missing.")
    parser.add_argument("--page", help="this page only, such as server/tools")
    parser.add_argument("--missing", action="store_true", help="the missing clauses with their statements")
    parser.add_argument("--format", choices=("text", "rst"), default="text")
    parser.add_argument("--no-run", action="store_true", help="count a marked test as one that passes")
    parser.add_argument("--results", type=Path, help="outcomes of an earlier run, from pytest --junitxml")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """The command."""
    options = parse(arguments)
    clauses = read_registry(root / "docs" / "clauses.tsv")
    waivers = read_waivers(root / "docs" / "waivers.tsv")
    code, tests = marks_in_code(root / "mcp_ref"), marks_in_tests(root / "tests")
    wrong = [f"unknown id: {line}" for line in unknown(clauses, code, tests)]
    wrong += [f"waiver: {fault}" for fault in faults_of_waivers(waivers, clauses)]
    if not wrong:
        waived = Waived(waivers, clauses)
        wrong = [f"marked but waived: {line}" for line in marked_but_waived(clauses, waived, code, tests)]
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    well = True
    if options.no_run:
        proved = tests
    elif options.results:
        proved = read_outcomes(options.results)
    else:
        proved, well = run_marked(root)
    report = Report(clauses, root / "mcp_ref", code, proved, waived)
    pages = [options.page] if options.page else report.pages()
    if not set(pages) <= set(report.pages()):
        raise SystemExit(f"no page {options.page}; there are {', '.join(report.pages())}")
    say(report, pages, options)
    return 1 if not well or report.missing_of(set(pages) & set(PAGES)) else 0


if __name__ == "__main__":
    sys.exit(main())
