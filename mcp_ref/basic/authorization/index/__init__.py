"""Overview (page: basic/authorization/index; basic/authorization until 2025-11-25).

    MCP client             an OAuth client: acts on behalf of a person, or on its own
    MCP server             an OAuth resource server: accepts access tokens
    authorization server   asks the person for consent; issues access tokens for the MCP server

authorization_flow   the authorization request, its response, the token request
scope_selection      which scopes a client asks for
access_tokens        how a request carries its token, and what a server verifies of it
refresh_tokens       how a client gets the next token without asking the person
error_handling       what each status means; challenges; the step up to more scopes

All of it is for HTTP. A server over stdio is started by its client, and gets its credentials from the
environment.
# spec: basic/authorization/index/stdio-exempt
"""
