"""runtime/typing/docstrings: what they say of parameters is in the schema, not in the description."""

import time
from typing import Annotated, Literal

import pytest

from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.runtime.typing.docstrings import description_of
from mcp_ref.runtime.typing.functions import parameters_of


class Context:
    """Stands for the real one: any class will do."""


def google(name: str, size: int = 1, kind: Literal["a"] = "a"):
    """Make a thing.

    It takes a while.

    Args:
        name: what it is called,
            in one word
        size (int, optional): how large: in metres
        kind:

    Returns:
        name: not this one.
    """


def numpy(name: str, size: int = 1, kind: Literal["a"] = "a"):
    """Make a thing.

    It takes a while.

    Parameters
    ----------
    name : str
        what it is called,
        in one word
    size
        how large: in metres
    kind : str

    Returns
    -------
    name
        not this one
    """


def sphinx(name: str, size: int = 1, kind: Literal["a"] = "a"):
    """Make a thing.

    It takes a while.

    :param name: what it is called,
        in one word
    :param int size: how large: in metres
    :type size: int
    :returns: not this one
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_descriptions_of_parameters_come_from_the_docstring(function):
    properties = parameters_of(function, Context).schema["properties"]
    assert properties["name"]["description"] == "what it is called, in one word"
    assert properties["size"]["description"] == "how large: in metres"
    assert "description" not in properties["kind"]
    assert description_of(function) == "Make a thing.\n\nIt takes a while."


def test_what_the_hint_says_comes_before_the_docstring():
    def f(a: Annotated[int, "from the hint"], b: Annotated[int, Bounds(ge=0)]):
        """F.

        Args:
            a: from the docstring
            b: from the docstring
            c: of nothing
            **rest: of nothing either
        """

    properties = parameters_of(f, Context).schema["properties"]
    assert properties["a"]["description"] == "from the hint"
    assert properties["b"] == {"type": "integer", "minimum": 0, "description": "from the docstring"}
    assert list(properties) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("", None),
        ("One line.", "One line."),
        ("First.\n\n    Code:\n        Args: none", "First.\n\nCode:\n    Args: none"),
        ("Sum.\n\nArgs:\n    a: b", "Sum."),
        ("\n    Args:\n        a: b", None),
        ("Sum.\n\nRaises:\n    ValueError: never", "Sum."),
        ("Sum.\n\n:raises ValueError: never", "Sum."),
        ("The Args: of it.\nArgs are good.", "The Args: of it.\nArgs are good."),
    ],
)
def test_the_description_is_what_comes_before_the_parameters(text, found):
    def f():
        pass

    f.__doc__ = text
    assert description_of(f) == found


def test_a_long_docstring_takes_no_time():
    def f(x: int):
        pass

    line = "x : int\n    " + "word " * 10 + "\n"
    f.__doc__ = "Sum.\n\nParameters\n----------\n" + line * 2000 + "Args:\n" + "    a b c\n" * 2000
    begun = time.thread_time()
    parameters_of(f, Context)
    assert time.thread_time() - begun < 5
