"""Streamable HTTP (page: basic/transports/streamable-http; basic/transports until 2025-11-25).

    client -> server   POST /mcp    one message           -> 200 one JSON object, or events; 202; an error
    client -> server   GET /mcp     (until 2025-11-25)    -> events of no request, or the rest of a stream
    client -> server   DELETE /mcp  (until 2025-11-25)    -> the session is over

The server handles a request in eight steps, which `endpoint` numbers. The headings of the page, and where
they are:

    Security & Endpoint                         endpoint: all steps; security: the checks of steps 1 to 3
    Sending Messages                            sending: the client's POST; responding: what the POST brings
                                                to the server, and its response (steps 5, 7 and 8);
                                                http_errors: what a refusal means to the client
    Receiving Messages, Cancellation            receiving: JSON or events: how a response becomes one of the
                                                two, and how a client reads it
    Listening for Messages from the Server      listening: streams that last, on both sides
    Session Management (until 2025-11-25)       sessions
    Resumability (2025-03-26 to 2025-11-25)     resumability
    Request Metadata                            request_metadata
    Schema Extension                            schema_extension: x-mcp-header
    Backward Compatibility                      backward_compatibility

The endpoint is a module of its own and not in this file, because every import of a heading runs this file.
`import mcp_ref` itself imports schema_extension, and most clients and servers never speak HTTP.
"""
