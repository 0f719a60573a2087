"""Streamable HTTP (page: basic/transports/streamable-http; basic/transports until 2025-11-25).

    client -> server   POST /mcp    one message           -> 200 one JSON object, or events; 202; an error
    client -> server   GET /mcp     (until 2025-11-25)    -> events of no request, or the rest of a stream
    client -> server   DELETE /mcp  (until 2025-11-25)    -> the session is over

The headings of the page, and where they are:

    Security & Endpoint                         endpoint, security
    Sending Messages                            sending: the client's POST; http_errors: what a refusal means
    Receiving Messages, Cancellation            receiving: one object or events, on both sides
    Session Management (until 2025-11-25)       sessions
    Resumability (2025-03-26 to 2025-11-25)     resumability
    Request Metadata                            request_metadata
    Schema Extension                            schema_extension: x-mcp-header
    Backward Compatibility                      backward_compatibility

The endpoint is a module of its own, and not this file: every import of a heading runs this file, and most
clients and servers never speak HTTP.
"""
