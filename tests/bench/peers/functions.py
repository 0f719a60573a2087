"""The tools of both servers: the same plain functions, so that only what carries them differs."""

import time
from collections.abc import Callable


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def echo(text: str) -> str:
    """Say it again."""
    return text


def nap(milliseconds: int) -> str:
    """Sleep, as a tool does that waits for something."""
    time.sleep(milliseconds / 1000)
    return "awake"


def look_up(number: int) -> Callable[..., str]:
    """One of many tools that differ in nothing but their names."""

    def look(query: str, limit: int = 10, exact: bool = False) -> str:
        return f"{number}: {query} {limit} {exact}"

    look.__name__ = f"look_up_{number}"
    look.__doc__ = f"Look something up in collection {number}."
    return look


def functions(extra: int) -> list[Callable[..., object]]:
    """The three that are called, and as many more as are asked for."""
    return [add, echo, nap, *map(look_up, range(extra))]
