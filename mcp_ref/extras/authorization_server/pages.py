"""The pages that a person sees: login, consent, an error. Plain HTML, without a script.

All text from a client or a user is escaped by `_text`: there is no template language in which that could be
turned off. The style is part of the page, and the policy of the page allows this one style and no other, by
its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from mcp_ref.extras.authorization_server.messages import Response, page_response

__all__ = ["Consent", "consent_page", "error_page", "login_page"]

_PAGE_STYLE = """
body { font: 1.05em/1.5 sans-serif; max-width: 34em; margin: 3em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.35em } label { display: block; margin: .7em 0 }
input { font: inherit; padding: .3em; width: 100%; box-sizing: border-box }
button { font: inherit; padding: .45em 1.4em; margin: .5em .8em .5em 0 }
.warning { border-left: .3em solid #b50; background: #fff4e8; padding: .5em .9em }
dt { font-weight: bold; margin-top: .6em } dd { margin: 0; overflow-wrap: anywhere }
""".strip()
_STYLE_HASH = base64.b64encode(hashlib.sha256(_PAGE_STYLE.encode("utf-8")).digest()).decode("ascii")


def _text(text: str) -> str:
    return escape(text, quote=True)


def _page(title: str, body: str, status: int = 200, *headers: tuple[str, str]) -> Response:
    html = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="robots" content="noindex">\n'
        f"<title>{_text(title)}</title>\n<style>{_PAGE_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{_text(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
    return page_response(html, f"sha256-{_STYLE_HASH}", status, *headers)


def _form(action: str, fields: Iterable[tuple[str, str]], content: str) -> str:
    hidden = "".join(
        f'<input type="hidden" name="{_text(name)}" value="{_text(value)}">\n' for name, value in fields
    )
    return f'<form method="post" action="{_text(action)}">\n{hidden}{content}</form>'


def error_page(
    message: str, status: int, *headers: tuple[str, str], back: tuple[str, str] | None = None
) -> Response:
    """A page that says what went wrong. `back` is a link that the person may follow: its text and URL."""
    body = f"<p>{_text(message)}</p>\n<p>Nothing was granted.</p>"
    if back is not None:
        body += f'\n<p><a rel="noreferrer" href="{_text(back[1])}">{_text(back[0])}</a></p>'
    return _page("This did not work", body, status, *headers)


def login_page(
    action: str, fields: Iterable[tuple[str, str]], client: str, problem: str, *headers: tuple[str, str]
) -> Response:
    """A form for name and password. `client` is what the client calls itself, `problem` the last failure."""
    warning = f'<p class="warning">{_text(problem)}</p>\n' if problem else ""
    inputs = (
        '<label>Name <input name="name" autocomplete="username" required autofocus></label>\n'
        '<label>Password <input name="password" type="password" autocomplete="current-password" required>'
        "</label>\n<button>Log in</button>\n"
    )
    why = f"<p>Log in, to decide what {_text(client)} may do. Nothing is granted before you say so.</p>\n"
    return _page("Log in", warning + why + _form(action, fields, inputs), 401 if problem else 200, *headers)


@dataclass(frozen=True)
class Consent:
    """What the consent page shows to a person."""

    client: str
    """The client's name for itself, or its id."""
    client_host: str | None
    """The host of its metadata document; None if it has no such document."""
    redirect_host: str
    resource: str
    scopes: list[tuple[str, str]]
    """The scopes that it asks for, each with what it means."""
    user: str | None
    """The user who is logged in; None if users log in elsewhere (a proxy)."""
    stays: str
    """A sentence: how long the client may go on without asking again; "" if it may not."""
    warnings: tuple[str, ...] = ()
    next_host: str | None = None
    """Where the person is sent after the consent, to log in there (a proxy)."""


def _answers(asked: Consent) -> list[tuple[str, str]]:
    other = [("other", "I am another user")] if asked.user is not None else []
    return [("allow", "Allow"), ("deny", "Deny"), *other]


def consent_page(
    action: str, fields: Iterable[tuple[str, str]], asked: Consent, *headers: tuple[str, str]
) -> Response:
    """The page on which a person allows or denies a request."""
    rows = [("Application", f"{asked.client} (its own words)")]
    if asked.client_host is not None:
        rows.append(("Described by", asked.client_host))
    # spec: basic/authorization/security-considerations/redirect-host-shown
    rows += [("The answer is sent to", asked.redirect_host), ("For the server", asked.resource)]
    if asked.user is not None:
        rows.append(("You are", asked.user))
    if asked.next_host is not None:
        rows.append(("Next you log in at", asked.next_host))
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>\n" for name, value in rows)
    scopes = "".join(
        f"<li>{_text(about)} <small>({_text(scope)})</small></li>\n" for scope, about in asked.scopes
    )
    warnings = "".join(f'<p class="warning">{_text(warning)}</p>\n' for warning in asked.warnings)
    stays = f"<p>{_text(asked.stays)}</p>\n" if asked.stays else ""
    buttons = "".join(
        f'<button name="answer" value="{value}">{label}</button>\n' for value, label in _answers(asked)
    )
    wanted = (
        f"<p>It may then:</p>\n<ul>\n{scopes}</ul>\n"
        if scopes
        else "<p>It asks for no permission by name.</p>\n"
    )
    body = f"{warnings}<dl>\n{facts}</dl>\n{wanted}{stays}{_form(action, fields, buttons)}"
    return _page("Allow this application?", body, 200, *headers)
