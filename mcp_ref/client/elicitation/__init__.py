"""Elicitation (page: client/elicitation): a server asks the user of its client for information.

    server -> client   elicitation/create {message, requestedSchema}          form mode
    server -> client   elicitation/create {mode: "url", message, url,         URL mode
                                           elicitationId (2025-11-25)}
    client -> server   {action: "accept" | "decline" | "cancel", content?}

The headings of the page, and where they are:

    Elicitation requests, Response actions, Error handling     requests
    Requested schema, Supported schema types                   requested_schema: the fields of a form, and
                                                               content checked by them;
                                                               forms: a class -> a schema
    URL mode, its completion, -32042, Safe URL handling        url_mode
"""

from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequestType
from mcp_ref.client.elicitation import requests, url_mode

__all__ = ["INPUT_REQUEST"]

INPUT_REQUEST = InputRequestType(
    "elicitation/create", requests.needs, url_mode.question_of, requests.check_result, requests.answer
)
"""The row for elicitation among the requests that a server may make of its client, in either mode."""
