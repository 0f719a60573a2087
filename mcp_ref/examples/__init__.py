"""The examples of the docs, in an installed package, too: `python -m mcp_ref.examples` lists them.

    python -m mcp_ref.examples                     each, with what it shows; and where the files are
    python -m mcp_ref.examples echo                runs docs/examples/echo.py
    python -m mcp_ref.examples sqlite_server a.db  with arguments

Without arguments an example runs in its own folder, where the servers are that some of them start; with
arguments it runs where it is called, since they may be names of files there.

`files` is a link to docs/examples in the repository, and a folder in a wheel: there is no second copy.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["FILES", "examples", "main"]

FILES = Path(__file__).with_name("files")
FIRST = "first_hour/"
"""What is listed before all others."""


def examples() -> dict[str, Path]:
    """All examples by their names, in the order in which they are listed."""
    found = {path.relative_to(FILES).with_suffix("").as_posix(): path for path in FILES.glob("**/[!_]*.py")}
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith(FIRST), "/" in item[0], item)))


def main(words: Sequence[str] | None = None) -> int:
    """List the examples, or become one of them. The exit code."""
    given = list(sys.argv[1:] if words is None else words)
    known = examples()
    if not given or given[0] in ("-h", "--help"):
        _list(known)
        return 0
    path = known.get(given[0].removesuffix(".py"))
    if path is not None:
        _become(path, given[1:])
    print(f"there is no example {given[0]!r:.80}; python -m mcp_ref.examples lists them", file=sys.stderr)
    return 2


def _become(path: Path, arguments: Sequence[str]) -> NoReturn:
    """Go on as this program."""
    sys.stdout.flush()
    if not arguments:
        os.chdir(path.parent)
    os.execv(sys.executable, [sys.executable, str(path.resolve()), *arguments])


def _list(known: dict[str, Path]) -> None:
    """Each example, with the first line of what it says of itself."""
    width = max(map(len, known), default=0)
    for name, path in known.items():
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "(as in README)"
        print(f"{name:{width}}  {said.partition(chr(10))[0]}")
    print(f"\nTo run one: python -m mcp_ref.examples NAME\nThe files:  {FILES.resolve()}")
