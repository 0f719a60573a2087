"""Context: one request, as its handler sees it, in either era.

The two doors (basic/lifecycle, basic/versioning) turn an incoming request into the same object:
who asks, in which revision, with which capabilities; how to report progress and to log; whether the
answer is still wanted. Everything behind the doors is written once, against this.

Revisions   all.
Threads     made by the reader, then owned by the one worker that runs the request. `cancel` is called
            by the reader, or by whoever ends the connection, and is quick; everything else is the
            worker's. A tool may hand its context to threads of its own: `progress`, `log` and `notify`
            are safe there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.errors import LocalError, RequestCancelled
from mcp_ref.basic.messages import Json, RequestId
from mcp_ref.basic.versioning import TABLE, Revision, require_capability
from mcp_ref.runtime.deadlines import FOR_PEOPLE

if TYPE_CHECKING:
    from mcp_ref.basic.batch import Batch
    from mcp_ref.basic.lifecycle import Session
    from mcp_ref.basic.patterns.progress import OnProgress
    from mcp_ref.basic.patterns.request_response import Connection
    from mcp_ref.server.utilities.logging import LoggingLevel

__all__ = ["Context"]

_log = logging.getLogger("mcp_ref.context")


class Context:
    """What a handler knows of the request it answers."""

    __slots__ = (
        "_cancelled",
        "_enders",
        "_wakes",
        "batch",
        "client_capabilities",
        "client_info",
        "connection",
        "identity",
        "lifespan",
        "log_level",
        "meta",
        "method",
        "params",
        "principal",
        "progress_sent",
        "progress_token",
        "reason",
        "request_id",
        "revision",
        "server",
        "session",
        "speaking",
    )

    def __init__(self, connection: Connection, request_id: RequestId, method: str, params: Json) -> None:
        self.connection = connection
        self.request_id = request_id
        self.method = method
        self.params = params
        meta = params.get("_meta")
        self.meta: Json = meta if type(meta) is dict else {}
        self.batch: Batch | None = None
        # What the door fills in.
        self.revision: Revision = TABLE[0]
        self.session: Session | None = None
        self.client_info: Any = {}
        self.client_capabilities: Any = {}
        self.log_level: LoggingLevel | None = None
        self.progress_token: RequestId | None = None
        # What the server fills in.
        self.server: Any = None
        self.lifespan: Any = None
        self.principal: str | None = None
        self.identity: Any = None
        self.progress_sent: float | None = None  # guarded by speaking
        # Held while something is said of this request, by whichever thread: so reports keep their
        # order, and none comes after the answer.
        self.speaking = threading.Lock()
        # Written by the reader, read by anyone.
        self._cancelled = False
        self.reason: str | None = None
        self._wakes: threading.Event | None = None
        self._enders: list[Callable[[str], object]] = []

    # -- cancellation (basic/patterns/cancellation) ---------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the answer is no longer wanted. A long tool looks at this now and then."""
        return self._cancelled

    def check_cancelled(self) -> None:
        """Raise RequestCancelled if the answer is no longer wanted."""
        if self._cancelled:
            raise RequestCancelled(self.reason or "the client cancelled the request")

    def sleep(self, seconds: float) -> None:
        """Like `time.sleep`, but ends at once with RequestCancelled when the request is cancelled."""
        if self._wakes is None:
            self._wakes = threading.Event()
        end = time.monotonic() + seconds
        while not self._cancelled and (left := end - time.monotonic()) > 0:
            self._wakes.wait(min(left, threading.TIMEOUT_MAX))
        self.check_cancelled()

    def cancel(self, reason: str | None) -> None:
        """The answer is no longer wanted: sets the flag, wakes `sleep`, ends what ends with the request.

        # spec: basic/patterns/cancellation/free-resources, basic/transports/stdio/stop-cancelled-work
        """
        self.reason = reason
        self._cancelled = True
        if self._wakes is not None:
            self._wakes.set()
        for end in self._enders:
            try:
                end(reason or "the request it belongs to was cancelled")
            except Exception:  # the reader goes on reading, whatever a tool does here
                _log.exception("%s: what should end with it failed", self.method)

    def ends_with(self, end: Callable[[str], object]) -> None:
        """Have `end(reason)` called when the request is cancelled, or now if it was.

        The reader calls it: it is to be quick. It may be called twice if both happen at once.
        """
        self._enders.append(end)
        if self._cancelled:
            end(self.reason or "the request it belongs to was cancelled")

    @property
    def is_over(self) -> bool:
        """Whether the request was answered or cancelled, so that nothing more belongs to it."""
        return self.connection.serving.get(self.request_id) is not self

    # -- what belongs to this request -------------------------------------------------

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is (basic/patterns/progress)."""
        from mcp_ref.basic.patterns import progress as page

        page.report(self, progress, total, message)

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants that level (server/utilities/logging)."""
        from mcp_ref.server.utilities import logging as page

        page.log(self, level, data, logger)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification that belongs to this request; nothing once it is answered or cancelled.

        # spec: basic/patterns/index/request-scoped-notifications, basic/transports/stdio/silent-after-cancel
        """
        with self.speaking:
            self.say(method, params)

    def say(self, method: str, params: Json | None) -> None:
        """Send one notification now. Holds `speaking`.

        # spec: basic/patterns/progress/in-progress-only, basic/patterns/progress/rate-limit
        """
        if not self.is_over and self.connection.may_notify():
            self.connection.notify(method, params)

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Ask the client something and wait for its result. There is no such thing in 2026-07-28.

        # spec: basic/patterns/index/server-initiates-nothing, basic/index/requests-client-to-server-only
        """
        if self.revision.modern:
            raise LocalError(f"in {self.revision} a server sends no requests, so not {method} either")
        needed = method.partition("/")[0]
        if needed in ("sampling", "elicitation", "roots") and needed not in self.client_capabilities:
            # spec: basic/lifecycle/negotiated-capabilities-only
            raise LocalError(f"{method}: the client did not declare the capability {needed!r}")
        if timeout is None and needed in ("sampling", "elicitation"):
            timeout = FOR_PEOPLE  # somebody is to read this, and to think
        self.check_cancelled()
        return self.connection.request(
            method, params, timeout=timeout, on_progress=on_progress, on_behalf_of=self
        )

    def require_capability(self, **required: Json) -> None:
        """Go on only with a client that declared this: `ctx.require_capability(sampling={})`."""
        require_capability(self, required)
