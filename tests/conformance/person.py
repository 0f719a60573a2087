"""A person in front of a browser, who logs in and allows what is asked: what the suite needs of one.

python person.py NAME PASSWORD URL          for BROWSER, the command by which Python opens one
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from urllib.parse import urljoin

import requests

SECONDS = 30
MAX_PAGES = 5


class Form(HTMLParser):
    """The form of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = given["action"]
        elif tag == "input":
            self.fields[given["name"]] = given.get("value", "")


def allow(url: str, user: str, password: str) -> str:
    """Open an authorization URL, fill in each form until there is none: what the last page said."""
    with requests.Session() as browser:
        browser.trust_env = False
        page = browser.get(url, timeout=SECONDS)
        for _ in range(MAX_PAGES):
            form = Form(page.text)
            if form.action is None:
                break
            known = {"name": user, "password": password}
            fields = {name: known.get(name, value) for name, value in form.fields.items()}
            there = urljoin(page.url, form.action)
            page = browser.post(there, {**fields, "answer": "allow"}, timeout=SECONDS)
        return f"{page.status_code} at {page.url}"


if __name__ == "__main__":
    name, secret, authorization_url = sys.argv[1:]
    allow(authorization_url, name, secret)
