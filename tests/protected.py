"""A protected server for tests: an issuer with a key, its tokens, and clients that bring them.

ISSUER.token("ann", "notes:read", aud=RESOURCE)     a token, with what else it is to claim
protected(...)                                      a ResourceServer that takes them
bearer(token)                                       the headers of a client
    Place()                                             a socket whose URL is the resource
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from peers import PATIENCE, nothing_left

from mcp_ref import Server
from mcp_ref.api.resource_server import JwtVerifier, ResourceServer
from mcp_ref.runtime import jose
from mcp_ref.runtime.http_server.server import HttpServer

RESOURCE = "https://notes.example.com/mcp"
METADATA = "https://notes.example.com/.well-known/oauth-protected-resource/mcp"
HOUR = 3600.0


class Issuer:
    """An authorization server, as far as a protected server sees one."""

    def __init__(self, url: str = "https://auth.example.com", algorithm: str = "ES256") -> None:
        self.url, self.algorithm = url, algorithm
        self.key = jose.new_key(algorithm)

    def jwks(self) -> dict[str, Any]:
        """Its key set."""
        return {"keys": [self.key.public_jwk()]}

    def rotate(self) -> None:
        """Have another key from now on."""
        self.key = jose.new_key(self.algorithm)

    def claims(self, subject: str | None = "ann", *scopes: str, **more: Any) -> dict[str, Any]:
        """What a good token claims; a member None is left out."""
        claims = {
            "iss": self.url,
            "sub": subject,
            "client_id": "editor",
            "aud": RESOURCE,
            "scope": " ".join(scopes),
            "exp": time.time() + HOUR,
            "iat": time.time(),
            "jti": "1",
            **more,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self, subject: str | None = "ann", *scopes: str, header: dict[str, Any] | None = None, **more: Any
    ) -> str:
        """A token that it has signed."""
        return jose.sign(
            self.claims(subject, *scopes, **more),
            self.key,
            algorithm=self.algorithm,
            header={"typ": "at+jwt", **(header or {})},
        )

    def verifier(self, **options: Any) -> JwtVerifier:
        """What verifies its tokens."""
        return JwtVerifier(self.url, **{"jwks": self.jwks, **options})


ISSUER = Issuer()


def protected(*scopes: str, issuers: Sequence[Issuer] = (ISSUER,), **options: Any) -> ResourceServer:
    """A ResourceServer that takes the tokens of an issuer."""
    servers = [issuer.url for issuer in issuers]
    options = {"verify": issuers[0].verifier(), "resource": RESOURCE, **options}
    return ResourceServer(authorization_servers=servers, scopes=scopes, **options)


def bearer(token: str, scheme: str = "Bearer") -> dict[str, str]:
    """The headers of a client with a token."""
    return {"Authorization": f"{scheme} {token}"}


class Place:
    """A socket whose URL is the resource, for servers that have to know it before they are made."""

    def __init__(self) -> None:
        self._apps: list[Any] = []
        self._http = HttpServer(lambda environ, start: self._apps[-1](environ, start), port=0)
        self.url = f"http://127.0.0.1:{self._http.port}/mcp"

    @contextlib.contextmanager
    def serving(
        self, server: Server, issuer: str, http: dict[str, Any] | None = None, **given: Any
    ) -> Iterator[str]:
        """Serve a protected server here, once; `given` are the other options of its ResourceServer."""
        given = {"verify": JwtVerifier(issuer, jwks_uri=f"{issuer.rstrip('/')}/jwks"), **given}
        auth = ResourceServer(self.url, authorization_servers=[issuer], **given)
        with nothing_left():
            self._apps.append(server.wsgi_app(auth=auth, **(http or {})))
            thread = threading.Thread(target=self._http.serve, name="a protected server")
            thread.start()
            try:
                yield self.url
            finally:
                self._apps[-1].close(0.0)
                self._http.close(0.1)
                thread.join(PATIENCE)
