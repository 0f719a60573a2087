"""Authorization (pages: basic/authorization; one page until 2025-11-25, four in 2026-07-28).

Over HTTP a server may want to know on whose behalf it is asked. It is an OAuth *resource server* then; who
logs people in and issues access tokens is an *authorization server*, which may be another party. A client
that is refused finds out by itself all it needs:

    client -> server   request                                 -> 401  WWW-Authenticate: Bearer
    client -> server   GET protected resource metadata         -> which authorization servers there are
    client -> AS       GET authorization server metadata       -> its endpoints, and what it can do
    client -> AS       POST registration, where need be        -> client_id
    person -> AS       the authorization request, in a browser -> redirect to the client, with a code
    client -> AS       POST token request                      -> access token, refresh token
    client -> server   request, Authorization: Bearer ...      -> the response

The pages, and the modules of their headings:

    Overview                          index
        Authorization Flow Steps          index/authorization_flow
        Scope Selection Strategy          index/scope_selection
        Access Token Usage                index/access_tokens
        Refresh Tokens                    index/refresh_tokens
        Error Handling                    index/error_handling
    Authorization Server Discovery    authorization_server_discovery
    Client Registration               client_registration
                                      token_requests (how a client shows who it is)
    Security Considerations           security_considerations

No module here opens a connection or keeps a token: what a client does with them is api/authorization, what a
server does is api/resource_server.
"""
