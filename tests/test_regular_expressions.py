"""Each regular expression of the package takes time that grows with the length of a text, and no faster.

What a peer sends meets them, and while `re` searches no other thread of the process runs.
"""

import ast
import importlib
import pathlib
import pkgutil
import re
import time

import pytest

import mcp_ref

LENGTH = 60_000
MAX_SECONDS = 4.0
"""Of this thread's processor time: one that is quadratic takes ten seconds or so for LENGTH characters."""

PIECES = [
    "a",
    "A",
    "0",
    ".",
    "-",
    "_",
    "/",
    "%",
    "%41",
    " ",
    "\t",
    ",",
    ";",
    "=",
    '"',
    "\\",
    "@",
    ":",
    "<",
    "\r\n",
]
PIECES += [
    "a.",
    "a-",
    "a=",
    "a=b,",
    "a;b",
    '\\"',
    "0,",
    "{",
    "\n",
    "a@",
    "é",
    "[",
    "a/",
    "a=b;",
    "'",
    "<!--",
    "a ",
]
BEGINNINGS = ["", "a", '"', "a@", "a=", "/", "0", "<"]

METHODS = ("match", "fullmatch", "search", "sub", "split", "finditer", "findall")
OF_THE_AUTHOR = {
    "mcp_ref.runtime.typing.functions",
    "mcp_ref.client.sampling.creating_messages",
    "mcp_ref.client.elicitation.forms",
}
"""Modules whose expressions, written in place, read the names and docstrings of an author's functions."""


def expressions():
    """(where, pattern, method) for each use that the source shows."""
    for found in pkgutil.walk_packages(mcp_ref.__path__, "mcp_ref."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        source = pathlib.Path(module.__file__).read_text()
        for name, value in vars(module).items():
            for number, pattern in enumerate(value.values() if isinstance(value, dict) else [value]):
                if isinstance(pattern, re.Pattern):
                    used = set(re.findall(rf"\b{name}\.({'|'.join(METHODS)})\(", source)) or {"fullmatch"}
                    yield from ((f"{found.name}.{name}-{number}", pattern, method) for method in sorted(used))
        if found.name not in OF_THE_AUTHOR:
            yield from written_in_place(found.name, source)


def written_in_place(module, source):
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in METHODS
            and isinstance(node.args[0], ast.Constant)
        ):
            yield f"{module}:{node.args[0].value}", re.compile(node.args[0].value), node.func.attr


CASES = list(expressions())


def search(pattern, method, text):
    if isinstance(pattern.pattern, bytes):
        text = text.encode()
    found = pattern.sub("", text) if method == "sub" else getattr(pattern, method)(text)
    if method == "finditer":
        list(found)


def test_the_expressions_are_found():
    names = " ".join(where for where, _, _ in CASES)
    assert len(CASES) > 50
    assert "uris._URI_FORM" in names and "http_errors._MARKUP" in names and "directories:[?#]" in names


@pytest.mark.parametrize(
    ("pattern", "method"), [pytest.param(p, m, id=f"{where}-{m}") for where, p, m in CASES]
)
def test_no_long_text_takes_long(pattern, method):
    for piece in PIECES:
        for beginning in BEGINNINGS:
            text = (beginning + piece * LENGTH)[:LENGTH] + "\0"
            begun = time.thread_time()
            search(pattern, method, text)
            assert time.thread_time() - begun < MAX_SECONDS, (beginning, piece)
