"""The directive `clauses`: the table of a page's clauses, with the code that keeps them and their tests.

    .. clauses:: server/tools

    .. clauses::
       :module: basic/index/general_fields

The first form shows a page of the specification, the second what one module keeps, whichever page
it stands on. Both read the registry and the marks, and run no test.

    .. waivers::

shows docs/waivers.tsv: the clauses that we do not keep, and why.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Container, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {"clause": 28, "level": 8, "revisions": 12, "statement": 32, "code": 20, "tests": 20}
WAIVER_COLUMNS = {
    "clause": 28,
    "level": 8,
    "revisions": 12,
    "statement": 24,
    "reason": 28,
    "what a user sees": 28,
}


@functools.cache
def tool() -> ModuleType:
    """tests/clauses.py, which is no package's and has the name of this very module."""
    spec = importlib.util.spec_from_file_location("mcp_ref_tests_clauses", ROOT / "tests" / "clauses.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def registry() -> tuple[dict[str, Any], list[Any]]:
    """The clauses and the waivers."""
    docs = ROOT / "docs"
    return tool().read_registry(docs / "clauses.tsv"), tool().read_waivers(docs / "waivers.tsv")


def revisions(clause: Any) -> str:
    """Since when, until when."""
    if clause.since == clause.until:
        return str(clause.since)
    return f"{clause.since} to {clause.until}" if clause.until else f"since {clause.since}"


def entry(*texts: str, literal: bool = False) -> nodes.entry:
    """A cell of the table, with a paragraph for each text."""
    cell = nodes.entry()
    for text in texts:
        kind = nodes.literal if literal else nodes.inline
        cell += nodes.paragraph("", "", kind(text=text))
    return cell


def row(clause: Any, waived: Container[str], code: Iterable[str], tests: Iterable[str]) -> nodes.row:
    """A clause of the table."""
    where = [f"see {clause.same}"] if clause.same else []
    if clause.id in waived:
        where = ["waived: see What we do not keep"]
    cells = nodes.row()
    cells += entry(clause.id, literal=True)
    cells += entry(f"{clause.party} {clause.level}")
    cells += entry(revisions(clause))
    cells += entry(clause.statement.partition(" [same:")[0])
    cells += entry(*where) if where else entry(*dict.fromkeys(code), literal=True)
    cells += entry(*dict.fromkeys(tests), literal=True)
    return cells


def waiver_row(clause: Any, waiver: Any) -> nodes.row:
    """A clause that is waived."""
    cells = nodes.row()
    cells += entry(clause.id, literal=True)
    cells += entry(f"{clause.party} {clause.level}")
    cells += entry(waiver.revisions or revisions(clause))
    cells += entry(clause.statement)
    cells += entry(waiver.reason)
    cells += entry(waiver.seen)
    return cells


def table(columns: dict[str, int], rows: list[nodes.row]) -> nodes.table:
    """The table around these rows."""
    group = nodes.tgroup(cols=len(columns))
    group += [nodes.colspec(colwidth=width) for width in columns.values()]
    head = nodes.row()
    head += [entry(title) for title in columns]
    group += nodes.thead("", head)
    group += nodes.tbody("", *rows)
    return nodes.table("", group, classes=["clauses"])


class Clauses(SphinxDirective):
    """The directive itself."""

    optional_arguments = 1
    option_spec: ClassVar = {"module": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """The table, or an error if there is nothing to show."""
        page, module = self.arguments[0] if self.arguments else None, self.options.get("module")
        clauses, waivers = registry()
        waived = tool().Waived(waivers, clauses).wholly
        code, tests = tool().marks_in_code(ROOT / "mcp_ref"), tool().marks_in_tests(ROOT / "tests")
        shown = [
            clause
            for clause in clauses.values()
            if (page or module) and page in (None, clause.page) and module in (None, clause.module)
        ]
        if not shown:
            raise self.error(f"the registry has no clauses of page {page}, module {module}")
        self.env.note_reread()  # the marks may change while the page does not
        return [table(COLUMNS, [row(c, waived, code.get(c.id, ()), tests.get(c.id, ())) for c in shown])]


class Waivers(SphinxDirective):
    """The table of what is waived."""

    def run(self) -> list[nodes.Node]:
        """The table, in the order of the file."""
        clauses, waivers = registry()
        self.env.note_reread()
        return [table(WAIVER_COLUMNS, [waiver_row(clauses[w.clause], w) for w in waivers])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("clauses", Clauses)
    app.add_directive("waivers", Waivers)
    return {"parallel_read_safe": True}
