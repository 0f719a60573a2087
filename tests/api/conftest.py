"""What holds for every test of the API: it leaves no thread and no child process behind."""

from collections.abc import Iterator

import pytest
from peers import nothing_left


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield
