"""A server whose one method does what a test says."""

import threading

from choices import for_server
from peers import PATIENCE

from mcp_ref import Context, Server


class Handler:
    """A server whose one method does what the test says, and tells how it went."""

    def __init__(self, run, **options):
        self.server = Server("contexts", **for_server(options))
        self.entered = threading.Semaphore(0)
        self.left = threading.Semaphore(0)
        self.outcomes = []
        self.contexts = []

        @self.server.on_request("vendor/x")
        def handle(params, ctx: Context):
            self.contexts.append(ctx)
            self.entered.release()
            try:
                result = run(ctx)
                self.outcomes.append(result)
                return {"value": result}
            except BaseException as problem:
                self.outcomes.append(problem)
                raise
            finally:
                self.left.release()

    def is_entered(self):
        assert self.entered.acquire(timeout=PATIENCE)

    def outcome(self):
        """What the handler returned or raised, as soon as it did."""
        assert self.left.acquire(timeout=PATIENCE)
        return self.outcomes[-1]


def cancel(raw, request_id, **more):
    raw.notify("notifications/cancelled", {"requestId": request_id, **more})


def nothing_about(raw, request_id):
    """Whether what the server says from now on is the answer to a further request, and no more."""
    other = raw.ask("vendor/none")
    message = raw.receive()
    return message["id"] == other and message["id"] != request_id
