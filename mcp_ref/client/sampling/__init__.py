"""Sampling (page: client/sampling): a server asks the model of its client for a message.

    server -> client   sampling/createMessage {messages, maxTokens, ...}
    client -> server   {role, content, model, stopReason?}

The headings of the page, and where they are:

    Creating messages, Tools in sampling, Error handling       creating_messages
    Messages, Tool use and result balance                      messages
    Result fields, Model hints                                 replies
"""
