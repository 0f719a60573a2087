"""Streamable HTTP (page: basic/transports/streamable-http; basic/transports until 2025-11-25).

    client -> server   POST /mcp    one message           -> 200 one JSON object, or events; 202; an error
    client -> server   GET /mcp     (until 2025-11-25)    -> events of no request, or the rest of a stream
    client -> server   DELETE /mcp  (until 2025-11-25)    -> the session is over

The server's way of a request is eight steps, in `endpoint`. The headings of the page, and where they are:

    Security & Endpoint                         endpoint: steps 1 and 2; security: steps 1 and 3
    Sending Messages                            sending: the client's POST; responding: what one brings to the
                                                server, and its response (steps 4, 5, 7 and 8);
                                                http_errors: what a refusal means
    Receiving Messages, Cancellation            receiving: one object or events: what a response becomes, and
                                                how a client reads one
    Listening for Messages from the Server      listening: streams that last, on both sides
    Session Management (until 2025-11-25)       sessions
    Resumability (2025-03-26 to 2025-11-25)     resumability
    Request Metadata                            request_metadata
    Schema Extension                            schema_extension: x-mcp-header
    Backward Compatibility                      backward_compatibility

The endpoint is a module of its own, and not this file: every import of a heading runs this file, as that of
`import mcp_ref` does for x-mcp-header, and most clients and servers never speak HTTP.
"""
