"""Whether the statements marked `# spec:` are run by the tests that carry the same mark.

    python tests/marks_run.py                       # all of them: two minutes on two idle cores
    python tests/marks_run.py tests/basic           # what the tests of these files and folders can show

A comment `# spec: <id>` says: this statement keeps the clause. A test with `@pytest.mark.spec("<id>")` says:
this proves it. Where no such test runs the statement, one of the two is wrong. So the marked tests run under
coverage, which notes for each line the clauses of the tests that ran it: in the process of the tests, and in
the children that they start, as far as those end by themselves.

The statement of a comment is the one that it stands beside or inside of, else the next one; that of a
docstring, of a `def` and of a `class` is the first of the body. What an import runs needs no test. A clause
without marked tests is the business of tests/clauses.py; one that repeats another (`[same: <id>]`) counts as
that.

Prints a line for each mark that no test of its own runs. Exit status: 1 if there is one, or if a test failed.
"""

from __future__ import annotations

import ast
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import coverage
import pytest
from clauses import COMMENT, ROOT, marks_in_code, read_registry

PARTS = 8
"""The test files are dealt into so many runs of pytest, as many of which run at once as there are cores."""

SETTINGS = """
[run]
source = {package}
data_file = {folder}/data
parallel = true
context = ${{MARKS_RUN_CLAUSES-}}
"""
"""Those of coverage in the children of a test."""

# ------------------------------------------------------------------------ one run of pytest


class Contexts:
    """A plugin of pytest: what runs belongs to the clauses that the test of the moment is to prove."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.clauses: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        clauses = {str(clause) for mark in item.iter_markers("spec") for clause in mark.args}
        self.clauses |= clauses
        os.environ["MARKS_RUN_CLAUSES"] = " ".join(sorted(clauses))
        self.measured.switch_context(os.environ["MARKS_RUN_CLAUSES"])
        try:
            return (yield)
        finally:
            self.measured.switch_context("")


@contextlib.contextmanager
def measured_children(settings: Path) -> Iterator[None]:
    """Children run under coverage too, also those that a test gives an environment of its own."""
    begin: Callable[..., None] = subprocess.Popen.__init__

    def measured(child: Any, *args: Any, env: Mapping[str, str] | None = None, **options: Any) -> None:
        more = {
            "COVERAGE_PROCESS_START": str(settings),
            "MARKS_RUN_CLAUSES": os.environ.get("MARKS_RUN_CLAUSES", ""),
        }
        begin(child, *args, env={**(os.environ if env is None else env), **more}, **options)

    subprocess.Popen.__init__ = measured
    try:
        yield
    finally:
        subprocess.Popen.__init__ = begin


def run(folder: Path, name: str, files: list[str]) -> int:
    """Run the marked tests of some files: what a process of its own does."""
    package = str(ROOT / "mcp_ref")
    settings = folder / "settings"
    settings.write_text(SETTINGS.format(package=package, folder=folder), encoding="utf-8")
    measured = coverage.Coverage(data_file=str(folder / f"data.{name}"), source=[package], config_file=False)
    contexts = Contexts(measured)
    measured.start()
    try:
        with measured_children(settings):
            arguments = ["-q", "-m", "spec", "-p", "no:cacheprovider", *files]
            return int(pytest.main(arguments, [contexts]))
    finally:
        measured.stop()
        measured.save()
        (folder / f"clauses.{name}").write_text("\n".join(contexts.clauses), encoding="utf-8")


# ------------------------------------------------------------------------ all of them


def parts(places: list[str]) -> list[list[str]]:
    """The test files below some places that have marks, dealt so that the parts are about as long."""
    found: set[Path] = set()
    for place in map(Path, places):
        found.update([place] if place.is_file() else place.rglob("test_*.py"))
    marked = {path: path.read_text(encoding="utf-8").count("mark.spec") for path in found}
    files = sorted((path for path in found if marked[path]), key=lambda path: (-marked[path], path))
    return [part for n in range(PARTS) if (part := [str(path) for path in files[n::PARTS]])]


def measure(places: list[str], folder: Path) -> tuple[list[str], coverage.CoverageData]:
    """Run everything. Gives what the runs that failed said, and what was run by which tests."""
    environment = {**os.environ, "COVERAGE_CORE": "ctrace"}  # the core that knows contexts

    def one(number: int, files: list[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, __file__, "--run", str(folder), str(number), *files]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    dealt = parts(places)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = list(pool.map(one, range(len(dealt)), dealt))
    whole = coverage.CoverageData(str(folder / "whole"))
    for path in sorted(folder.glob("data.*")):
        with contextlib.closing(coverage.CoverageData(str(path))) as data:
            data.read()
            whole.update(data)
    return [run.stdout[-3000:] + run.stderr[-3000:] for run in ended if run.returncode not in (0, 5)], whole


def proved_lines(data: coverage.CoverageData, path: Path) -> dict[str, set[int]]:
    """For each clause, the lines of a file that a test of it runs."""
    lines: dict[str, set[int]] = {}
    for line, contexts in data.contexts_by_lineno(str(path)).items():
        for clause in {clause for context in contexts for clause in context.split()}:
            lines.setdefault(clause, set()).add(line)
    return lines


# ------------------------------------------------------------------------ the statement of a comment


def statements(text: str) -> Iterator[tuple[int, range]]:
    """For each marked line of a file: the lines of which one must have run; empty for what an import runs."""
    tree = ast.parse(text)
    for number, line in enumerate(text.splitlines(), 1):
        if COMMENT.search(line):
            yield number, _lines(_statement(tree, number, starts=line.lstrip().startswith("#")))


def _statement(node: Any, number: int, starts: bool) -> list[ast.stmt]:
    """The way from the outermost statement to the one that a line belongs to, or stands before."""
    way: list[ast.stmt] = []
    while True:
        inside = [s for s in _children(node) if s.lineno <= number <= (s.end_lineno or s.lineno)]
        if not inside:
            later = [s for s in _children(node) if s.lineno > number]
            return [*way, min(later, key=lambda s: s.lineno)] if starts and later else way
        node = inside[0]
        way.append(node)


def _children(node: ast.AST) -> list[ast.stmt]:
    """The statements right below another, in `try` and `match` too."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found.extend(_children(child))
    return found


def _lines(way: list[ast.stmt]) -> range:
    if not any(isinstance(statement, ast.FunctionDef) for statement in way):
        return range(0)  # an import runs it
    last = way[-2] if _is_text(way[-1]) else way[-1]
    if isinstance(last, ast.ClassDef | ast.FunctionDef):
        last = next((s for s in last.body if not _is_text(s)), last)
    inner = _children(last)  # of an `if` or a `with`, what stands before its body
    end = min((s.lineno for s in inner), default=(last.end_lineno or last.lineno) + 1)
    return range(last.lineno, max(end, last.lineno + 1))


def _is_text(statement: ast.stmt) -> bool:
    """Whether it is a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


# ------------------------------------------------------------------------ the report


def report(data: coverage.CoverageData, ran: set[str], same: Mapping[str, str]) -> list[str]:
    """A line for each mark that no test of its own runs, of the clauses whose tests ran."""
    marks = marks_in_code(ROOT / "mcp_ref")
    tested = {same.get(clause, clause) for clause in ran}
    missing = []
    for name in sorted({place.rpartition(":")[0] for places in marks.values() for place in places}):
        path = ROOT / "mcp_ref" / name
        lines: dict[str, set[int]] = {}
        for clause, found in proved_lines(data, path).items():
            lines.setdefault(same.get(clause, clause), set()).update(found)
        needed = dict(statements(path.read_text(encoding="utf-8")))
        for clause, places in marks.items():
            known = same.get(clause, clause)
            for number in [int(p.rpartition(":")[2]) for p in places if p.rpartition(":")[0] == name]:
                if known in tested and needed[number] and not lines.get(known, set()) & set(needed[number]):
                    missing.append(f"mcp_ref/{name}:{number}: {clause}")
    return sorted(missing)


def main(arguments: list[str]) -> int:
    """The command."""
    if arguments[:1] == ["--run"]:
        return run(Path(arguments[1]), arguments[2], arguments[3:])
    clauses = read_registry(ROOT / "docs" / "clauses.tsv").values()
    same = {clause.id: clause.same for clause in clauses if clause.same}
    with tempfile.TemporaryDirectory(prefix="marks-") as folder:
        failed, data = measure(arguments or [str(ROOT / "tests")], Path(folder))
        ran = {c for path in Path(folder).glob("clauses.*") for c in path.read_text("utf-8").splitlines()}
        missing = report(data, ran, same)
    for problem in failed:
        print(problem, file=sys.stderr)
    for line in missing:
        print(line)
    print(f"{len(missing)} marked lines that no test with the same mark runs")
    return 1 if missing or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
