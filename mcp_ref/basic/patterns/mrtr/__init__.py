"""Multi round-trip requests (page: basic/patterns/mrtr): a server asks the client before it answers.

    client -> server   tools/call                                                       id 1
    server -> client   {resultType: "input_required", inputRequests?, requestState?}
    client -> server   tools/call, + inputResponses and the same requestState           id 2
    server -> client   {resultType: "complete", ...}, or it asks again

The headings of the page, and where they are:

    Basic workflow, Supported requests, Error handling    basic_workflow
    requestState and the answers in it                    replay: how a handler is run again
"""
