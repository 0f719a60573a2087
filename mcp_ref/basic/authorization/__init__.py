"""Authorization (pages: basic/authorization; one page until 2025-11-25, four in 2026-07-28).

Over HTTP a server may want to know on whose behalf a client acts. It is an OAuth *resource server* then; an
*authorization server* (AS), which may be another party, logs people in and issues access tokens. A client
that is refused finds out all it needs by itself:

    client -> server   request                                 -> 401  WWW-Authenticate: Bearer
    client -> server   GET protected resource metadata         -> its authorization servers
    client -> AS       GET authorization server metadata       -> its endpoints and capabilities
    client -> AS       POST registration, if it has no id yet  -> client_id
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
                                      token_requests (how a client authenticates)
    Security Considerations           security_considerations

No module here opens a connection or stores a token. A client does that in api/oauth_client, for
which api/authorization has the options; a server does its part in api/resource_server.
"""
