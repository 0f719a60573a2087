"""A flow that grants are tried in: it keeps what they send, and answers what a test says."""

from dataclasses import dataclass, field
from typing import Any

from mcp_ref.basic.authorization.token_requests import TokenClient


@dataclass
class Flow:
    """As the client makes one, without a network."""

    client: TokenClient = field(default_factory=lambda: TokenClient("me"))
    scopes: tuple[str, ...] = ("notes:read", "notes:write")
    metadata: dict[str, Any] = field(default_factory=dict)
    issuer: str = "https://issuer.test"
    resource: str = "https://server.test/mcp"
    outcome: Any = "the tokens"
    answer: Any = None
    """Of another token endpoint."""
    sent: list[tuple[str, dict[str, str], TokenClient]] = field(default_factory=list)

    def request(self, form: dict[str, str], *, client: TokenClient | None = None) -> Any:
        return self._sent("token endpoint", form, client or self.client, self.outcome)

    def post(self, url: str, form: dict[str, str], *, client: TokenClient) -> Any:
        return self._sent(url, form, client, self.answer)

    def _sent(self, url: str, form: dict[str, str], client: TokenClient, outcome: Any) -> Any:
        self.sent.append((url, form, client))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
