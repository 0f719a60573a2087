"""Overview (page: basic/authorization/index; basic/authorization until 2025-11-25).

    MCP client             an OAuth client: asks on behalf of a person, or on its own
    MCP server             an OAuth resource server: takes access tokens
    authorization server   asks the person, and issues access tokens for the MCP server

authorization_flow   the authorization request, its response, the token request
scope_selection      which scopes a client asks for
access_tokens        how a request carries its token, and what a server verifies of it
refresh_tokens       how a client gets the next token without asking the person
error_handling       which status says what; challenges; the step up to more scopes

Pipes have no part in this: a server that is started by its client has its credentials from the environment.
# spec: basic/authorization/index/stdio-exempt
"""
