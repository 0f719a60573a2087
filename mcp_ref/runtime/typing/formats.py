"""Formats of strings that can be checked: e-mail addresses, URIs, dates, and dates with a time.

They are the four that a form may have (client/elicitation), and all that `Bounds(format=...)` takes.

Threads     plain functions.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

from mcp_ref.runtime.uri.uris import check_uri

__all__ = ["FORMATS"]

MAX_EMAIL_CHARACTERS = 254
"""The longest e-mail address that the limits of RFC 5321 leave room for."""

# RFC 5321, "Local-part": a dot-string or a quoted string. Its 64 characters are counted in _EMAIL.
_LOCAL = r"""(?:[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*|"(?:[ !#-\[\]-~]|\\[ -~]){0,62}")"""
# RFC 5321, "Domain": labels of at most 63 letters, digits and hyphens. Or an address in brackets.
_DOMAIN = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
_EMAIL = rf"(?ai:(?=.{{1,64}}@){_LOCAL}@(?:{_DOMAIN}|\[[!-Z^-~]+\]))"
# RFC 3339, "full-date" and "date-time". Whether a month or an hour exists is left to `datetime`.
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE_TIME = rf"(?i:{_DATE}T[0-9:]{{8}}(?:\.[0-9]{{1,60}})?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}}))"


def _is_email(text: str) -> bool:
    return len(text) <= MAX_EMAIL_CHARACTERS and re.fullmatch(_EMAIL, text) is not None


def _is_uri(text: str) -> bool:
    try:
        return bool(check_uri(text))
    except ValueError:
        return False


def _is_date(text: str) -> bool:
    """Whether a text is a date of RFC 3339. Python alone would accept more: also 20260728 and 2026-W30-2."""
    try:
        return re.fullmatch(_DATE, text) is not None and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    """Whether a text is a date and time of RFC 3339, with its offset. Python refuses leap seconds."""
    try:
        return re.fullmatch(_DATE_TIME, text) is not None and bool(
            datetime.datetime.fromisoformat(text.upper())
        )
    except ValueError:
        return False


FORMATS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "email": ("an e-mail address", _is_email),
    "uri": ("a URI such as https://example.com/", _is_uri),
    "date": ("a date such as 2026-07-28", _is_date),
    "date-time": ("a date and time such as 2026-07-28T12:00:00Z", _is_date_time),
}
"""Each format of JSON Schema that is known: how an error message names it, and its check."""
