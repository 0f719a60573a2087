"""The words of the package, its README and its docs: English as its readers expect it.

A lint, and a bound on what it finds. A phrase may be right in its place (`"nobody"` as somebody's name), so a
few hits are allowed; more of them are a habit.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mcp_ref"

MAX_HITS = 19

PHRASES = re.compile(r"\b([Ww]hoever|[Nn]obody|[Ss]omebody|is none|are none|[Ww]hat is not|[Tt]hose who)\b")
"""Definitions without a subject: each hides the noun that a reader looks for."""

TABLES = {"DEFINITIONS", "METHODS", "NOTIFICATIONS"}
"""What each page has, by the same name: its types, and its rows."""


def texts() -> Iterator[tuple[str, str]]:
    """Every line that a reader meets, with its place."""
    files = [ROOT / "README.rst", *PACKAGE.rglob("*.py")]
    files += [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".rst", ".py")]
    for path in sorted(files):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def phrases() -> list[str]:
    return [f"{place}: {found[1]}" for place, line in texts() for found in PHRASES.finditer(line)]


def bare_constants() -> dict[str, set[str]]:
    """The modules that define each constant of one bare word."""
    modules = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9]+", target.id):
                    modules[target.id].add(str(path.relative_to(ROOT)))
    return modules


def ambiguous_constants() -> list[str]:
    """Constants of one bare word that are two things in two modules."""
    return [
        f"{name}: {', '.join(sorted(modules))}"
        for name, modules in bare_constants().items()
        if len(modules) > 1 and name not in TABLES
    ]


def test_definitions_have_a_subject_and_constants_one_meaning() -> None:
    hits = phrases() + ambiguous_constants()
    assert len(hits) <= MAX_HITS, "\n".join(hits)


def test_the_lint_sees_what_it_looks_for() -> None:
    assert "Whoever" in PHRASES.findall("Whoever asks")
    assert not PHRASES.findall("the value is None")
    assert len(bare_constants()["METHODS"]) > 5
