"""runtime/errors: what went wrong on this side, and how it travels between processes."""

import copy
import pickle

import pytest

from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    RequestCancelled,
    RequestTimeout,
)


class Named(McpError):
    """Its arguments are not those of Exception."""

    def __init__(self, name, *, size):
        super().__init__(f"{name} is {size} bytes long")
        self.size = size


@pytest.mark.parametrize(
    ("error", "base"),
    [(RequestTimeout, TimeoutError), (ConnectionClosed, ConnectionError), (RequestCancelled, LocalError)],
)
def test_a_local_error_is_caught_by_the_name_that_python_has_for_it(error, base):
    assert issubclass(error, base)
    assert issubclass(error, LocalError)
    assert issubclass(LocalError, McpError)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("problem", [Named("a", size=3), InvalidResponse("odd")])
def test_an_error_with_arguments_of_its_own_is_copied_and_pickled(problem, again):
    other = again(problem)
    assert (type(other), str(other), vars(other)) == (type(problem), str(problem), vars(problem))
