"""Showing each message that crosses the wire to the application: `ClientOptions(on_wire=show)`.

    def show(direction, message):       ">" and the bytes of a message to the server, or "<" and one from it
        print(direction, message.decode())

Over HTTP a message is the body of a request, the body of a response, or an event. Headers are not shown, and
so no token is.

Errors      an error that the function raises is logged; the connection goes on.
Threads     the function runs on any thread that sends or reads, and a slow one holds that up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from mcp_ref.runtime.logs import logger

if TYPE_CHECKING:
    from mcp_ref.api.pipe_transport import ServerLink

__all__ = ["OnWire", "TappedLink", "unharmed"]

_log = logger("mcp_ref.wire")

OnWire: TypeAlias = Callable[[str, bytes], object]


def unharmed(on_wire: OnWire) -> OnWire:
    """A function that calls this one, and logs its errors."""

    def tell(direction: str, message: bytes) -> None:
        try:
            on_wire(direction, message)
        except Exception:
            _log.exception("on_wire failed")

    return tell


class TappedLink:
    """A ServerLink (api/pipe_transport) that also calls a function with each message that crosses it."""

    def __init__(self, link: ServerLink, on_wire: OnWire) -> None:
        self._link, self._tell = link, on_wire

    def write(self, lines: bytes) -> None:
        """Write messages, a line each."""
        for line in lines.splitlines():
            self._tell(">", line)
        self._link.write(lines)

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read until the stream ends."""

        def heard(line: bytes) -> None:
            self._tell("<", line.strip())
            receive(line)

        self._link.read(heard, too_long, limit)

    # -- all else is passed on to the link -----------------------------------------------------------

    @property
    def peer_drained_input(self) -> bool:
        """Whether the server has read all that was sent to it, as far as that can be known."""
        return self._link.peer_drained_input

    @property
    def crashed(self) -> bool:
        """Whether the server ended in a way after which it may be started again."""
        return self._link.crashed

    def silence(self) -> str:
        """What is known of a server that does not answer, for an error message."""
        return self._link.silence()

    def exit_reason(self) -> str:
        """Why there is no more to read, for an error message."""
        return self._link.exit_reason()

    def close(self) -> None:
        """End the link."""
        self._link.close()

    def release(self) -> None:
        """Release what reading needs."""
        self._link.release()
