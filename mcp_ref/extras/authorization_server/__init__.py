"""An authorization server, and a proxy to one: for learning, for tests, for a single machine.

    auth = AuthorizationServer(
        "http://127.0.0.1:9000", users={"ada": "secret"}, resources=[url], scopes={...}
    )
    auth.run(port=9000)                 or auth.wsgi_app(), in any WSGI server

What it is NOT:

    an identity provider      a user is a name and a password in a dict; there is no account, no second
                              factor, no mail, no ID token (OpenID Connect), no page that takes consent back
    for several machines      all state is in the memory of one process: it is lost when that ends, and a
                              second process knows nothing of it
    audited                   it keeps the rules of OAuth 2.1 that its tests name, and no one from outside has
                              reviewed it. Where tokens guard something that others want, use a product
    a wall against floods     tables are bounded and attempts are counted; a flood still keeps people out

The way of a client through it, and where each step is:

    1  it reads the metadata                GET  /.well-known/oauth-authorization-server    metadata
    2  it registers, unless it is known     POST /register, or its client id is a URL       clients, documents
    3  it sends the user's browser          GET  /authorize                                 authorization
    4  the user logs in                     POST /login                                     logins, browsers
    5  the user allows it, or not           GET, POST /consent                              pages
    6  it gets tokens for the code          POST /token                                     grants, tokens
    7  it gets new ones                     POST /token                                     grants, tokens
    8  it gives tokens back                 POST /revoke                                    grants, tokens

With a `Proxy` (proxy), step 5 comes before step 4, and users log in at another provider: one that only knows
clients which were registered there by hand.

The MCP server verifies tokens with `auth.verifier(url)` in the same process, with the keys at GET /jwks, or
by asking POST /introspect. `server` has the options and the table of paths, `settings` checks the options,
`messages` has requests and responses, `expiring` the bounded tables whose entries expire.
"""

from mcp_ref.extras.authorization_server.clients import RegisteredClient
from mcp_ref.extras.authorization_server.proxy import Proxy, Upstream
from mcp_ref.extras.authorization_server.server import AuthorizationServer

__all__ = ["AuthorizationServer", "Proxy", "RegisteredClient", "Upstream"]
