"""`mcp-ref login URL`, `mcp-ref logout URL`, and `--auth` of the other commands (pages: basic/authorization).

    mcp-ref login https://example.com/mcp        a browser opens; the tokens are kept in a file
    mcp-ref tools --auth https://example.com/mcp they go with the requests, and are renewed when they expire
    mcp-ref logout https://example.com/mcp       they are forgotten

`login` also stores which client logged in, so that `--auth` can renew the tokens; a login that fails leaves
the one before it as it was. The file is TOKENS, or the one that MCP_REF_TOKENS names; its mode is 0600
(api/token_stores). `--auth` asks a person only where there is a terminal.

Errors      ValueError: misuse; AuthorizationError and StoreError (exit code 4) where there are no tokens.
Threads     main.
"""

from __future__ import annotations

import os
import shlex
import sys
import webbrowser
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from mcp_ref.api.authorization import OAuth
    from mcp_ref.api.oauth_client import OAuthClient
    from mcp_ref.api.token_stores import FileTokens, TokenStore

__all__ = ["auth_of", "login", "logout"]

TOKENS = "~/.local/share/mcp-ref/tokens"
"""Where tokens are kept, unless MCP_REF_TOKENS names another file."""


def login(options: Namespace) -> None:
    """Get tokens for a URL, and store them. Earlier ones are forgotten once the new ones are there."""
    from mcp_ref.api.token_stores import MemoryTokens  # start-up time: few commands need it

    url, chosen, kept = _url_of(options), _chosen(options), _store()
    fresh = MemoryTokens()
    for key in filter(_is_registration, kept.keys()):  # this client need not register again
        fresh.set(key, kept.get(key) or {})
    authorizer = _oauth(chosen, fresh, paste=options.paste).authorizer(url)
    _connect(url, authorizer, options)
    if authorizer.issuer is None:
        print(f"{url} answers without a login")
        return
    _forget(kept, url)
    all_keys = fresh.keys()
    for key in all_keys:
        kept.set(key, fresh.get(key) or {})
    kept.set(f"login {url}", chosen)
    print(f"logged in to {url} by {authorizer.issuer}")


def logout(options: Namespace) -> None:
    """Forget the tokens for a URL, whichever login they are from."""
    url = _url_of(options)
    had_tokens = _forget(_store(), url)
    print(f"logged out of {url}" if had_tokens else f"there was no login to {url}")


def _is_registration(key: str) -> bool:
    return key.startswith("client ")


def _forget(kept: FileTokens, url: str) -> bool:
    """Forget all tokens for a URL, also those of other clients. Returns whether there were any."""
    from mcp_ref.basic.authorization.index.authorization_flow import canonical_uri  # start-up time

    place = canonical_uri(url)
    server = kept.get(f"server {place}") or {}
    resources = {place, server.get("resource", place)}
    all_keys = kept.keys()
    tokens = [key for key in all_keys if key.startswith("tokens ") and key.split(" ")[2] in resources]
    for key in [*tokens, f"server {place}", f"login {url}"]:
        kept.delete(key)
    return bool(tokens)


def auth_of(options: Namespace, url: Any) -> OAuth | None:
    """The `auth` of `connect` for `--auth`; None without it. Raises ValueError if the server has no URL."""
    if not getattr(options, "auth", False):  # in a shell the connection is there already
        return None
    if not isinstance(url, str):
        raise ValueError("--auth is for a server at a URL")
    kept = _store()
    agent = None if sys.stderr.isatty() else partial(_refuse, url)
    return _oauth(kept.get(f"login {url}") or {}, kept, agent)


def _url_of(options: Namespace) -> str:
    from mcp_ref.cli.servers import target  # only login and logout need it

    url: Any = target(options)["target"]
    if not isinstance(url, str):
        raise ValueError("a login is for a server at a URL")
    return url


def _chosen(options: Namespace) -> dict[str, Any]:
    """Which client logs in, and for which scopes, as options of OAuth.

    A secret is read from a file, since other users of the machine can see the command line.
    """
    secret = options.client_secret_file
    if secret is not None and options.client_id is None:
        raise ValueError("--client-secret-file goes with --client-id")
    given = {
        "client_id": options.client_id,
        "client_secret": None if secret is None else Path(secret).read_text(encoding="utf-8").strip(),
        "client_metadata_url": options.client_metadata_url,
        "scopes": options.scope,
    }
    return {name: value for name, value in given.items() if value is not None}


def _store() -> FileTokens:
    from mcp_ref.api.token_stores import FileTokens  # start-up time: few commands need it

    return FileTokens(os.environ.get("MCP_REF_TOKENS") or TOKENS)


def _oauth(chosen: dict[str, Any], store: TokenStore, agent: Any = None, *, paste: bool = False) -> OAuth:
    """What logs in to a server. `agent` visits pages for a person; without one, the person does."""
    # Start-up time: few commands need it.
    from mcp_ref.api.authorization import Browser, OAuth, PasteUrl

    if agent is None:
        agent = PasteUrl(_pasted) if paste else Browser(open=_open)
    return OAuth(client_name="mcp-ref", store=store, user_agent=agent, **chosen)


def _connect(url: str, authorizer: OAuthClient, options: Namespace) -> None:
    """Connect once, which logs in if the server wants that, and close again."""
    from mcp_ref.api.connect import connect  # start-up time: few commands need it
    from mcp_ref.api.options import ClientOptions  # the same

    about = ClientOptions(name="mcp-ref")
    with connect(
        url, auth=authorizer, revision=options.revision, timeout=options.timeout, options=about
    ) as client:
        client.ping()


def _open(url: str) -> None:
    """Open the browser, and say what to do on a machine without one."""
    print(f"mcp-ref: your browser opens; if it does not, open this URL in it:\n{url}", file=sys.stderr)
    webbrowser.open(url)


def _pasted(prompt: str) -> str:
    print(prompt, file=sys.stderr, end="", flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _refuse(server: str, url: str) -> str:
    """Visit no URL, as no person can be asked. Raises AuthorizationError, with the command that asks one."""
    from mcp_ref.basic.authorization.index.error_handling import AuthorizationError  # only HTTP needs it

    scopes = dict(parse_qsl(urlsplit(url).query)).get("scope", "").split()
    words = [word for scope in scopes for word in ("--scope", scope)]
    raise AuthorizationError(f"the server wants a login: {shlex.join(['mcp-ref', 'login', *words, server])}")
