"""What crosses the wire, for a function of the application's: `ClientOptions(on_wire=show)`.

    def show(direction, message):       ">" and the bytes of a message to the server, or "<" and one from it
        print(direction, message.decode())

Over HTTP a message is the body of a request, of a response, or an event: no header, and so no token.

Errors      one that the function raises is logged, and ends nothing.
Threads     any: those that send, and those that read. What takes its time holds them up.
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
    """The same function, whose errors are logged."""

    def tell(direction: str, message: bytes) -> None:
        try:
            on_wire(direction, message)
        except Exception:
            _log.exception("on_wire failed")

    return tell


class TappedLink:
    """A link of a pipe (api/pipe_transport), with a function that is told what crosses it."""

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
        """Read until the link ends."""

        def heard(line: bytes) -> None:
            self._tell("<", line.strip())
            receive(line)

        self._link.read(heard, too_long, limit)

    # -- the rest is the link's own ------------------------------------------------------------------

    @property
    def peer_drained_input(self) -> bool:
        """Whether the server read all that was sent to it."""
        return self._link.peer_drained_input

    @property
    def crashed(self) -> bool:
        """Whether the server may be started again."""
        return self._link.crashed

    def silence(self) -> str:
        """What is known of a server that does not answer."""
        return self._link.silence()

    def exit_reason(self) -> str:
        """Why there is no more to read."""
        return self._link.exit_reason()

    def close(self) -> None:
        """End the link."""
        self._link.close()

    def release(self) -> None:
        """Give back what reading needs."""
        self._link.release()
