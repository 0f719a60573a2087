"""The base protocol (page: basic/index): the parts that all messages have, whatever their method.

    request        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": {...}, ...}}
    response       {"jsonrpc": "2.0", "id": 1, "result": {...}}     or     {..., "error": {code, message,
    data?}}
    notification   {"jsonrpc": "2.0", "method": "notifications/progress", "params": {...}}

The headings of the page, and the module of each:

    Messages: requests, responses, notifications;   messages
    resultType
    Responses: error responses; Error codes         error_responses
    Batching (2025-03-26)                           batching
    General fields: _meta, icons                    general_fields
    JSON Schema usage                               json_schema_usage
    Statelessness                                   basic/versioning, which has the door of the stateless era
"""
