"""HTTP with SSE, the transport of 2024-11-05 (page: basic/transports in that revision, "HTTP with SSE").

    client -> server   GET /sse
    server -> client   event: endpoint          data: /sse/messages?session_id=...
    client -> server   POST to that URI         -> 202, whatever the message is
    server -> client   event: message           data: {"jsonrpc": ...}         responses too

The page has this one heading; `server` and `client` are its two halves.
"""
