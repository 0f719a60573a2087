"""The server of docs/examples/deploy with tools that do as a test says, through files in a folder.

`served:app` and `served:flask_app` are the applications of that folder. Run as a program it is the waitress
script. A tool makes `NAME.began` when it runs and ends when there is `NAME.go`; then it leaves behind
`NAME.cancelled` or `NAME.finished`.
"""

import os
import runpy
import time
from pathlib import Path

from wsgi import app, server

from mcp_ref import Context

__all__ = ["app", "server"]

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "examples" / "deploy"
FOLDER = Path(os.environ["DEPLOY_FOLDER"])
LIMIT = 60.0


def _until_told(name: str, ctx: Context) -> str:
    (FOLDER / f"{name}.began").touch()
    end = time.monotonic() + LIMIT
    try:
        while not (FOLDER / f"{name}.go").exists() and time.monotonic() < end:
            ctx.sleep(0.01)
    finally:
        (FOLDER / f"{name}.{'cancelled' if ctx.cancelled else 'finished'}").touch()
    return f"{name} is done"


@server.tool
def silent(name: str, ctx: Context) -> str:
    """Says nothing until it is told to end."""
    return _until_told(name, ctx)


@server.tool
def talking(name: str, ctx: Context) -> str:
    """Reports once and waits."""
    ctx.progress(1, 2)
    return _until_told(name, ctx)


@server.tool
def stubborn(name: str) -> str:
    """Looks at nothing."""
    (FOLDER / f"{name}.began").touch()
    time.sleep(LIMIT)
    return "slept"


@server.tool
def echo(words: str) -> str:
    """The same again."""
    return words


@server.tool
def grow(name: str) -> str:
    """A new tool, and so a change of the list."""
    server.add_tool(lambda: name, name=name)
    return name


@server.tool
def process() -> int:
    """Which process this is."""
    return os.getpid()


def __getattr__(name: str) -> object:
    if name != "flask_app":
        raise AttributeError(name)
    from flask_app import app as flask_app

    return flask_app


if __name__ == "__main__":
    runpy.run_path(str(DEPLOY / "waitress_server.py"), run_name="__main__")
