"""What the system knows of a pipe."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from mcp_ref.runtime.threads import pipes
from mcp_ref.runtime.threads.pipes import poll_for, unread, widen


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_was_not_read_is_counted_from_either_end(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    assert unread(writing) == 0
    os.write(writing, b"12345")
    assert unread(writing) == unread(reading) == 5
    os.read(reading, 2)
    assert unread(writing) == 3


def test_what_is_no_pipe_holds_nothing() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        assert unread(descriptor) == 0
        widen(descriptor)
    finally:
        os.close(descriptor)


def test_a_widened_pipe_takes_a_megabyte_at_once(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    widen(reading, writing)
    os.set_blocking(writing, False)
    assert os.write(writing, bytes(1 << 20)) >= 65536


def test_a_poll_says_when_there_is_something_to_read(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    poll = poll_for(reading, select.POLLIN)
    assert poll.poll(0) == []
    os.write(writing, b"x")
    assert poll.poll(0) == [(reading, select.POLLIN)]


def test_a_terminal_is_ready_when_there_is_something_to_read_or_room_to_write():
    ours, theirs = os.openpty()
    try:
        assert not pipes.terminal_is_ready(theirs, 0.0, reading=True)
        assert pipes.terminal_is_ready(theirs, 0.0, reading=False)
        os.write(ours, b"hello\n")
        assert pipes.terminal_is_ready(theirs, 5.0, reading=True)
    finally:
        os.close(ours)
        os.close(theirs)
