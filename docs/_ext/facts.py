"""What these pages say of revisions, taken from the tables of the package so that it cannot go stale.

.. beside::                              where the specification has this page, revision by revision

   basic/patterns/progress 2026-07-28
   basic/utilities/progress 2024-11-05 2025-11-25

.. revisions::                           the facts of basic/versioning
.. methods::                             who answers what, in which revisions
.. messages::                            who sends what, in which revisions
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from mcp_ref.api.server import ROWS
from mcp_ref.basic.versioning import TABLE, Method, Notification
from mcp_ref.schema import REVISIONS, message_shapes, rows

SITE = "https://modelcontextprotocol.io/specification"


def paragraph(*parts: nodes.Node) -> nodes.paragraph:
    return nodes.paragraph("", "", *parts)


def table(head: Sequence[str], rows: Iterable[Sequence[nodes.Node]]) -> nodes.table:
    """A table of cells that are ready."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row([paragraph(nodes.Text(title)) for title in head]))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group, classes=["facts"])


def _row(cells: Sequence[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", cell) for cell in cells))


def _text(value: object) -> nodes.paragraph:
    return paragraph(nodes.Text(str(value)))


def _code(value: object) -> nodes.paragraph:
    return paragraph(nodes.literal(text=str(value)))


class Beside(SphinxDirective):
    """The pages of the specification to lay beside this one."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """One list item for each path that the page had."""
        items = nodes.bullet_list()
        for line in self.content:
            path, since, *rest = line.split()
            first, last = REVISIONS.index(since), REVISIONS.index(rest[0] if rest else REVISIONS[-1])
            item = paragraph(nodes.literal(text=path), nodes.Text(": "))
            for number, date in enumerate(REVISIONS[first : last + 1]):
                item += nodes.Text(", ") if number else nodes.Text("")
                item += nodes.reference(text=date, refuri=f"{SITE}/{date}/{path.removesuffix('/index')}")
            items += nodes.list_item("", item)
        return [paragraph(nodes.strong(text="Read beside")), items]


class Revisions(SphinxDirective):
    """basic/versioning.TABLE."""

    def run(self) -> list[nodes.Node]:
        """A column for each revision."""
        rows = []
        for field in dataclasses.fields(TABLE[0])[1:]:
            values = [getattr(revision, field.name) for revision in TABLE]
            rows.append([_code(field.name), *(_text(getattr(v, "value", v)) for v in values)])
        return [table(["", *REVISIONS], rows)]


class Methods(SphinxDirective):
    """The rows that the pages add to the table of methods."""

    def run(self) -> list[nodes.Node]:
        """A line for each method."""
        rows = [
            [
                _code(row.name),
                _code(f"{row.handler.__module__.removeprefix('mcp_ref.')}.{row.handler.__name__}"),
                *(_text("yes" if row.holds(date) else "") for date in REVISIONS),
            ]
            for row in ROWS
        ]
        return [table(["method", "answered by", *REVISIONS], rows)]


class Messages(SphinxDirective):
    """The rows of all pages: those of methods, then those of notifications."""

    def run(self) -> list[nodes.Node]:
        """A line for each message, by sender."""
        messages: list[Method | Notification] = rows("METHODS") + rows("NOTIFICATIONS")
        lines = [
            [_code(row.name), _text(row.sender), *(_text(_presence(row, date)) for date in REVISIONS)]
            for row in sorted(messages, key=lambda row: row.sender)
        ]
        return [table(["message", "sent by", *REVISIONS], lines)]


def _presence(row: Method | Notification, date: str) -> str:
    """How a revision has a message."""
    if not row.holds(date):
        return ""
    is_asked = isinstance(row, Method) and row.sender == "server"
    return "in a result" if is_asked and "InputRequest" in message_shapes(date) else "yes"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    directives = {"beside": Beside, "revisions": Revisions, "methods": Methods, "messages": Messages}
    for name, directive in directives.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True}
