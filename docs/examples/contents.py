"""What a function returns, and what is read: text, bytes, data, or contents that are ready."""

import datetime
from dataclasses import dataclass

from mcp_ref import Server, connect

server = Server("weather")


@dataclass
class Report:
    day: datetime.date
    degrees: float


@server.resource("weather://today")
def today() -> str:
    """A string is text."""
    return "sunny"


@server.resource("weather://today/map", mime_type="image/png")
def picture() -> bytes:
    """Bytes are a blob."""
    return b"\x89PNG"


@server.resource("weather://{day}", ttl_ms=60_000, cache_scope="public")
def report(day: datetime.date) -> Report:
    """Everything else is its JSON. The day of the URI arrives as a date."""
    return Report(day, 21.5)


@server.resource("weather://week")
def week() -> list[dict[str, str]]:
    """Several contents, with URIs and types of their own."""
    return [
        {"uri": f"weather://week/{name}", "mimeType": "text/html", "text": f"<p>{name}</p>"}
        for name in ("monday", "tuesday")
    ]


with connect(server) as client:
    for uri in ("weather://today", "weather://today/map", "weather://week", "weather://2026-07-28"):
        result = client.read_resource(uri)
        for item in result["contents"]:
            print(item)
    print(result["ttlMs"], result["cacheScope"])
