"""Exchanges with a server of a test, as an HttpClient makes them."""

from peers import PATIENCE
from web import JSON

from mcp_ref.runtime.threads.deadlines import Clock, Deadline


def within(seconds=PATIENCE):
    return Deadline(seconds, Clock())


def ask(http, body=b"{}", method="POST", headers=None, limit=1 << 20):
    """Status and body."""
    with http.new(within()) as exchange:
        exchange.send(method, headers or {}, body)
        return exchange.status, exchange.read(limit)


def ok(request, wire):
    """An empty object at once."""
    wire.answer(200, b"{}", JSON)


def waits(request, wire):
    """A stream that brings nothing, until the client is gone."""
    wire.stream()
    wire.gone()


def begun(http):
    """An exchange whose response has begun."""
    exchange = http.new(within())
    exchange.send("POST", {}, b"{}")
    return exchange


class Numbered:
    """An authorizer whose tokens are numbers, each of them new."""

    def __init__(self, answers=True, during=None):
        self.asked, self.refusals, self.nonces = [], [], []
        self.stopped = 0
        self._answers, self._during = answers, during

    def headers(self, method, url):
        self.asked.append((method, url))
        return {"Authorization": f"Bearer {len(self.asked)}"}

    def refused(self, refusal, deadline):
        self.refusals.append(refusal)
        if self._during is not None:
            self._during(deadline)
        if isinstance(self._answers, Exception):
            raise self._answers
        return self._answers

    def accepted(self, nonce):
        self.nonces.append(nonce)

    def stop(self):
        self.stopped += 1
