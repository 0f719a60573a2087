"""The sizes of the package: of its functions, its classes and its modules.

A bound that is exceeded in one place for a while has an exception here, by name; one that is no longer needed
must go.
"""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from collections.abc import Iterator
from pathlib import Path

from radon.complexity import cc_visit
from radon.visitors import Class

PACKAGE = Path(__file__).resolve().parents[1] / "mcp_ref"
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}

MAX_COMPLEXITY, MAX_METHODS, MAX_ATTRIBUTES, MAX_MEDIAN_LINES = 10, 30, 15, 125
"""Lines are those of code: a bound on all of them would be a bound on what is explained."""

COMPLEX: set[str] = set()

LARGE = {"Client", "Context", "Server"}
"""Each method of a Client is a line that sends what a page's client half makes; three for tasks came to
thirty others. A Context has ten of the request's, and the calls that a handler makes, of many pages; two
for tokens came to thirty. A Server is what an author says to it, most of it in its base, and what transports
use; `mount` and a repr came to thirty.
"""


def complexities() -> Iterator[tuple[str, int]]:
    """Each function and method, and its cyclomatic complexity as radon counts it."""
    for path, source in SOURCES.items():
        for block in cc_visit(source):
            if not isinstance(block, Class):
                yield f"{path} {block.fullname}", block.complexity


def test_no_function_is_too_complex():
    assert {name for name, complexity in complexities() if complexity > MAX_COMPLEXITY} == COMPLEX


def base_names(kind: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in kind.bases]


def members_of(kind: ast.ClassDef) -> tuple[set[str], set[str]]:
    """The names of the methods of a class, and of its attributes."""
    methods = {node.name for node in kind.body if isinstance(node, ast.FunctionDef)}
    attributes = {
        n.target.id for n in kind.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    for node in ast.walk(kind):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            attributes |= {node.attr} if ast.unparse(node.value) == "self" else set()
    return methods, attributes - methods


def is_frozen(kind: ast.ClassDef) -> bool:
    """Whether a class is a dataclass of facts or options, each of which is read by itself."""
    return any("frozen=True" in ast.unparse(decorator) for decorator in kind.decorator_list)


def test_no_class_has_too_many_members():
    """Counted with its bases: what a reader of the class has to know."""
    nodes = [node for source in SOURCES.values() for node in ast.walk(ast.parse(source))]
    found = [node for node in nodes if isinstance(node, ast.ClassDef)]
    found.sort(key=lambda node: -node.col_offset)  # of two of one name, the outer one counts
    classes = {node.name: node for node in found}

    def counted(kind: ast.ClassDef) -> tuple[set[str], set[str]]:
        methods, attributes = members_of(kind)
        for base in base_names(kind):
            if base in classes and base != kind.name:
                more = counted(classes[base])
                methods, attributes = methods | more[0], attributes | more[1]
        return methods, attributes

    large = set()
    for name, kind in classes.items():
        methods, attributes = counted(kind)
        is_record = "TypedDict" in base_names(kind) or is_frozen(kind)
        if len(methods) > MAX_METHODS or (len(attributes) > MAX_ATTRIBUTES and not is_record):
            large.add(name)
    assert large == LARGE


def code_lines(source: str) -> int:
    """How many lines have code: those of docstrings, of comments alone, and empty ones do not count."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def test_lines_of_code_are_counted_without_prose():
    prose = '"""One.\n\nTwo."""\n\n# three\n'
    code = 'x = 1  # four\ny: int\n"""five"""\n\n\ndef f():\n    return (\n        1\n    )\n'
    assert code_lines(prose + code) == 6


def test_modules_are_short():
    sizes = {path: code_lines(source) for path, source in SOURCES.items()}
    median = statistics.median(sizes.values())
    longest = sorted(sizes, key=lambda path: -sizes[path])[:10]
    assert median <= MAX_MEDIAN_LINES, f"median {median}; the longest: {longest}"
