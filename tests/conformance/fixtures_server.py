"""The server that the fixtures are added to."""

import base64

from mcp_ref import Server

server = Server(
    "everything",
    version="1.0.0",
    title="Everything",
    instructions="Each tool, prompt and resource does what its description says, and nothing else.",
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
"""One red pixel."""

WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA==")
"""One silent sample, at 8 kHz."""
