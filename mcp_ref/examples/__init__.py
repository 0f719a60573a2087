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
import difflib
import os
import sys
from collections.abc import Iterable, Sequence
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
        return _list(known)
    path = known.get(given[0].removesuffix(".py"))
    if path is not None:
        _become(path, given[1:])
    meant = _meant(given[0].removesuffix(".py"), known)
    advice = f"did you mean {meant}? " if meant is not None else ""
    said = f"there is no example {given[0]!r:.80}; {advice}python -m mcp_ref.examples lists them"
    print(said, file=sys.stderr)
    return 2


def _meant(name: str, known: Iterable[str]) -> str | None:
    """The example whose name, without its folder, is the nearest to this one; None if none is near."""
    by_last = {found.rpartition("/")[2]: found for found in known}
    near = difflib.get_close_matches(name.rpartition("/")[2], by_last, 1)
    return by_last[near[0]] if near else None


def _become(path: Path, arguments: Sequence[str]) -> NoReturn:
    """Go on as this program."""
    sys.stdout.flush()
    if not arguments:
        os.chdir(path.parent)
    os.execv(sys.executable, [sys.executable, str(path.resolve()), *arguments])


def _list(known: dict[str, Path]) -> int:
    """Print each example, and the first line of what it says of itself. Returns 141 if its reader is gone."""
    width = max(map(len, known), default=0)
    lines = []
    for name, path in known.items():
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "(as in README)"
        lines.append(f"{name:{width}}  {said.partition(chr(10))[0]}")
    try:
        print(*lines, "", "To run one: python -m mcp_ref.examples NAME", sep="\n")
        print(f"The files:  {FILES.resolve()}", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the last flush of stdout must not fail again
        return 141
    return 0
