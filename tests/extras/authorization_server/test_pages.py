"""extras/authorization_server/pages: what a person sees, with nothing in it that was not meant to be."""

import base64
import hashlib
import re

import pytest

from mcp_ref.extras.authorization_server.pages import Consent, consent_page, error_page, login_page

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
FIELDS = [("flow", "f1"), ("csrf", "c1")]


def asked(**more):
    given = {
        "client": "Notes",
        "client_host": None,
        "redirect_host": "app.example.com",
        "resource": "https://mcp.example.com",
        "scopes": [("read", "Read your notes")],
        "user": "ada",
        "stays": "",
        **more,
    }
    return consent_page("https://auth.example.com/consent", FIELDS, Consent(**given))


def every_page(text):
    yield error_page(text, 400, back=(text, f"https://app.example.com/?{text}"))
    yield login_page(text, [(text, text)], text, text)
    yield asked(
        client=text,
        client_host=text,
        redirect_host=text,
        resource=text,
        scopes=[(text, text)],
        user=text,
        stays=text,
        warnings=(text,),
        next_host=text,
    )


def test_text_of_strangers_is_escaped_on_every_page():
    for page in every_page(EVIL):
        html = page.body.decode()
        assert "<script" not in html
        assert "<img" not in html
        assert html.count("&lt;script&gt;") >= 2
        assert "'" not in re.sub(r"<style>.*</style>", "", html, flags=re.S)


def test_the_policy_allows_the_style_of_the_page_and_nothing_else():
    page = asked()
    style = re.search(r"<style>(.*)</style>", page.body.decode(), re.S)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = dict(page.headers)["Content-Security-Policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


@pytest.mark.spec(
    "basic/authorization/security-considerations/redirect-host-shown",
    "docs/security_best_practices/consent-page",
)
def test_a_consent_page_says_who_wants_what_and_where_the_answer_goes():
    html = asked(
        client_host="client.example.com",
        stays="For 30 days.",
        warnings=("Careful.",),
        next_host="login.example.com",
    ).body.decode()
    for words in (
        "Notes (its own words)",
        "client.example.com",
        "app.example.com",
        "https://mcp.example.com",
        "Read your notes",
        "ada",
        "For 30 days.",
        "Careful.",
        "login.example.com",
    ):
        assert words in html
    assert 'name="csrf" value="c1"' in html
    assert [*re.findall(r'name="answer" value="(\w+)"', html)] == ["allow", "deny", "other"]


def test_without_a_user_there_is_no_other_one_and_without_scopes_no_list():
    html = asked(user=None, scopes=[]).body.decode()
    assert [*re.findall(r'name="answer" value="(\w+)"', html)] == ["allow", "deny"]
    assert "no permission by name" in html


def test_a_login_page_that_says_what_was_wrong_has_another_status():
    assert login_page("/login", FIELDS, "Notes", "").status == 200
    assert login_page("/login", FIELDS, "Notes", "Wrong.", ("A", "b")).status == 401
    assert b'type="password"' in login_page("/login", FIELDS, "Notes", "").body


def test_an_error_page_leads_nowhere_by_itself():
    page = error_page("No.", 403, ("Allow", "GET"))
    assert (page.status, b"<a " in page.body, dict(page.headers)["Allow"]) == (403, False, "GET")
    assert "Location" not in dict(page.headers)
    assert b"Refresh" not in page.body
