"""stdio (page: basic/transports/stdio): framing, the server's half, the client's half."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import PATIENCE, eventually, nothing_left

from mcp_ref import ConnectionClosed
from mcp_ref.basic.transports.stdio import framing as stdio


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def read_all(data: bytes, sizes: list[int], limit: int = 1 << 20) -> tuple[list[bytes], list[int]]:
    """What `read_lines` makes of bytes that arrive in pieces of these sizes."""
    lines: list[bytes] = []
    refused: list[int] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # one read, one piece
    with ours, theirs:

        def too_long(size: int, beginning: bytes) -> None:
            refused.append(size)
            assert set(beginning) <= set(b"x")

        reader = threading.Thread(
            target=stdio.read_lines, args=(ours.fileno(), lines.append, too_long, limit)
        )
        reader.start()
        while data:
            size = max(1, sizes.pop() if sizes else len(data))
            theirs.send(data[:size])
            data = data[size:]
        theirs.close()
        reader.join(PATIENCE)
    return lines, refused


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b" ")), max_size=8),
    st.lists(st.integers(1, 12), max_size=30),
)
@pytest.mark.spec("basic/transports/stdio/one-message-per-line")
def test_lines_are_lines_however_they_arrive(lines: list[bytes], sizes: list[int]) -> None:
    """Split anywhere, joined at will; empty lines are nothing."""
    found, refused = read_all(b"".join(line + b"\n" for line in lines), sizes)
    assert found == [line for line in lines if line and not line.isspace()]
    assert refused == []


@pytest.mark.parametrize("sizes", [[1000, 1], [1000] * 9, [1] * 600], ids=lambda sizes: str(len(sizes)))
def test_a_line_within_the_limit_is_whole_however_it_arrives(sizes: list[int]) -> None:
    """Also where it is longer than what is kept of a line beyond the limit."""
    line = b"x" * 3000
    assert len(line) > stdio.PREFIX_BYTES
    assert read_all(line + b"\n", sizes) == ([line], [])


@pytest.mark.parametrize("sizes", [[], [2], [2, 1500], [300], [1] * 600], ids=str)
def test_of_a_line_beyond_the_limit_the_beginning_is_reported_however_it_arrives(sizes: list[int]) -> None:
    """It says whose request it was. The pieces that are skipped, and the last one, are no part of it."""
    line = bytes(range(32, 127)) * 20 + b"the end"
    found: list[tuple[int, bytes]] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # one read, one piece
    with ours, theirs:
        args = (ours.fileno(), found.append, lambda *reported: found.append(reported), 1000)
        reader = threading.Thread(target=stdio.read_lines, args=args)
        reader.start()
        data = line
        for size in sizes:
            theirs.send(data[:size])
            data = data[size:]
        theirs.send(data + b"\n")
        theirs.close()
        reader.join(PATIENCE)
    assert found == [(len(line), line[: stdio.PREFIX_BYTES])]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 40), max_size=8), st.lists(st.integers(1, 15), max_size=30))
def test_a_line_beyond_the_limit_is_reported_and_the_next_one_read(
    lengths: list[int], sizes: list[int]
) -> None:
    lines = [b"x" * length for length in lengths]
    found, refused = read_all(b"".join(line + b"\n" for line in lines), sizes, limit=20)
    assert found == [line for line in lines if 0 < len(line) <= 20]
    assert refused == [len(line) for line in lines if len(line) > 20]


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    """A socket is the way in and the way out, and whoever writes to it makes it not block."""
    lines: list[bytes] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stdio.Writer(ours.fileno())
        arguments = (ours.fileno(), lines.append, lambda *told: None)
        reader = threading.Thread(target=stdio.read_lines, args=arguments)
        reader.start()
        assert not eventually(lambda: not reader.is_alive(), 0.05)
        theirs.send(b"one\n")
        assert eventually(lambda: lines == [b"one"])
        theirs.close()
        reader.join(PATIENCE)


def test_a_last_line_without_its_end_is_no_message(caplog: pytest.LogCaptureFixture) -> None:
    assert read_all(b'{"a":1}\n{"b":', []) == ([b'{"a":1}'], [])
    assert "ended within a message of 5 bytes" in caplog.text


def test_a_writer_writes_everything_to_a_slow_reader() -> None:
    data = random.Random(1).randbytes(3_000_000)
    source_, target = os.pipe()
    got: list[bytes] = []

    def read() -> None:
        while piece := os.read(source_, 5000):
            got.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    stdio.Writer(target)(data)
    os.close(target)
    reader.join(PATIENCE)
    os.close(source_)
    assert b"".join(got) == data


def test_a_writer_gives_up_a_peer_that_does_not_read() -> None:
    source_, target = os.pipe()
    write = stdio.Writer(target, stall=0.05)
    with pytest.raises(ConnectionClosed, match=r"has read nothing for 0\.05 s"):
        write(bytes(10_000_000))
    assert write.close(1.0)
    with pytest.raises(ConnectionClosed):
        write(b"more")
    os.close(source_)
    os.close(target)


def test_a_writer_is_not_closed_while_it_writes() -> None:
    source_, target = os.pipe()
    write = stdio.Writer(target, stall=PATIENCE)
    problems: list[Exception] = []
    waits = threading.Event()
    real = write._poll

    class Poll:
        def poll(self, milliseconds: float) -> Any:
            waits.set()
            return real.poll(PATIENCE * 1000)  # until there is room: it looks at nothing before

    write._poll = Poll()  # type: ignore[assignment]

    def fill() -> None:
        try:
            write(bytes(1_000_000))
        except ConnectionClosed as problem:
            problems.append(problem)

    writer = threading.Thread(target=fill)
    writer.start()
    assert waits.wait(PATIENCE)  # the pipe is full, and the writer inside the write
    assert write.close(0.05) is False
    os.read(source_, 65536)  # room again: the writer looks, and finds that it is to end
    writer.join(PATIENCE)
    assert problems
    assert write.close(0.05)
    os.close(source_)
    os.close(target)


def test_a_forked_child_writes_nothing_to_its_parents_peer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        write = stdio.Writer(ours.fileno())
        write(b"the parent's")
        with write._writing:  # held for ever, by a thread that the child does not have
            write.forked()
            for say in (write, write.begin):
                with pytest.raises(ConnectionClosed):
                    say(b"the child's")
            assert write.close(0.0)
        assert theirs.recv(100) == b"the parent's"
        ours.close()
        assert theirs.recv(100) == b""
