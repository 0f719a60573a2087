"""`.. machine:: module`: the state machine of a module, drawn from its table `TRANSITIONS`.

The table says for each state and each event which state follows. It is shown twice: as a picture of the
states and what leads from one to the next, and as the table that it is, where an empty cell is an event that
cannot be.
"""

from __future__ import annotations

import html
import importlib
from typing import Any

from docutils import nodes
from facts import paragraph, table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WIDTH, HEIGHT = 150, 40
"""Of the box of a state, in pixels."""

HALO = 'paint-order="stroke" stroke="white" stroke-width="5"'
"""Around words, so that no line runs through them."""


def steps(states: dict[Any, dict[str, Any]]) -> dict[tuple[Any, Any], list[str]]:
    """For two states, the events that lead from the one to the other."""
    found: dict[tuple[Any, Any], list[str]] = {}
    for state, row in states.items():
        for event, following in row.items():
            found.setdefault((state, following), []).append(event)
    return found


def picture(states: dict[Any, dict[str, Any]], places: dict[str, tuple[int, int]]) -> str:
    """An SVG: a box for each state, an arrow for each pair of states; what changes nothing is below it."""
    parts = []
    for (state, following), events in steps(states).items():
        if state is not following:
            parts.append(arrow(places[state.name], places[following.name], ", ".join(events)))
    for state in states:
        parts.append(box(state.name, *places[state.name], steps(states).get((state, state), [])))
    right = max(x for x, _ in places.values()) + WIDTH + 20
    bottom = max(y for _, y in places.values()) + HEIGHT + 40
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {bottom}" role="img" class="machine">'
    )
    tip = '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
    tip += 'orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    return "\n".join([head, tip, *parts, "</svg>"])


def box(name: str, x: int, y: int, stays: list[str]) -> str:
    """A state, and below it the events that change nothing."""
    middle = x + WIDTH / 2
    shape = f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="white" stroke="black"/>'
    return shape + text(middle, y + 25, name, 14) + text(middle, y + HEIGHT + 14, ", ".join(stays))


def text(x: float, y: float, words: str, size: int = 10) -> str:
    """Words around a point."""
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="{size}"'
    return f"<text {place} {HALO}>{html.escape(words)}</text>"


def arrow(start: tuple[int, int], end: tuple[int, int], label: str) -> str:
    """An arrow between two boxes, from edge to edge, a little to its right: there is room for one back."""
    (x, y), (to_x, to_y) = start, end
    length = max(1.0, ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5)
    along = (to_x - x) / length, (to_y - y) / length
    side = -along[1] * 12, along[0] * 12

    def edge(box_x: int, box_y: int, sign: int) -> tuple[float, float]:
        """Where the line through a box, `side` beside its middle, leaves it."""
        reach = min(
            (half - sign * shift * (1 if step > 0 else -1)) / abs(step)
            for half, shift, step in ((WIDTH / 2, side[0], along[0]), (HEIGHT / 2, side[1], along[1]))
            if step
        )
        middle = box_x + WIDTH / 2 + side[0], box_y + HEIGHT / 2 + side[1]
        return middle[0] + sign * along[0] * reach, middle[1] + sign * along[1] * reach

    (x1, y1), (x2, y2) = edge(x, y, 1), edge(to_x, to_y, -1)
    ends = f'x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"'
    line = f'<line {ends} stroke="black" marker-end="url(#tip)"/>'
    at = x1 + (x2 - x1) * 0.42 + side[0], y1 + (y2 - y1) * 0.42 + side[1]
    return line + text(*at, label)


def cells(states: dict[Any, dict[str, Any]]) -> nodes.table:
    """The table, a row for each state and a column for each event."""
    events = list(dict.fromkeys(event for row in states.values() for event in row))
    rows = [
        [state.name, *(row[event].name if event in row else "" for event in events)]
        for state, row in states.items()
    ]
    return table(["state", *events], [[paragraph(nodes.Text(cell)) for cell in row] for row in rows])


class Machine(SphinxDirective):
    """The content says where the box of each state is: `UNDECIDED 0 0`."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        states = importlib.import_module(self.arguments[0]).TRANSITIONS
        places = {name: (int(x), int(y)) for name, x, y in (row.split() for row in self.content)}
        if set(places) != {state.name for state in states}:
            raise self.error(f"places for {sorted(places)}, states {sorted(state.name for state in states)}")
        return [nodes.raw("", picture(states, places), format="html"), cells(states)]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("machine", Machine)
    return {"parallel_read_safe": True}
