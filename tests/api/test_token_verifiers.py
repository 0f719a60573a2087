"""api/token_verifiers: what an access token says, by its signature or by asking its authorization server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs

import pytest
from peers import PATIENCE, eventually
from protected import ISSUER, RESOURCE, Issuer
from web import web

from mcp_ref.api import token_verifiers
from mcp_ref.api.token_verifiers import Introspection, JwtVerifier
from mcp_ref.basic.authorization.index.access_tokens import CannotVerify, InvalidToken
from mcp_ref.runtime import jose

Json = dict[str, Any]


def why(token: str, verifier: JwtVerifier | None = None) -> str:
    """Why a token is not taken."""
    with pytest.raises(InvalidToken) as problem:
        (verifier or ISSUER.verifier())(token)
    assert not any(part in str(problem.value) for part in token.split(".") if len(part) > 4)
    return str(problem.value)


def part(value: Json) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


# -- JSON web tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_a_good_token_says_whose_it_is_and_what_it_allows(algorithm: str) -> None:
    issuer = Issuer(algorithm=algorithm)
    found = issuer.verifier()(issuer.token("ann", "a", "b", nbf=1.5, aud=[RESOURCE, "x"], email="a@b.c"))
    assert (found.subject, found.client_id, found.issuer) == ("ann", "editor", issuer.url)
    assert found.scopes == {"a", "b"}
    assert found.audience == (RESOURCE, "x")
    assert found.not_before == 1.5
    assert found.expires_at is not None
    assert found.expires_at > time.time()
    assert found.claims["email"] == "a@b.c"
    assert found.confirmation is None


def test_alg_none_is_refused() -> None:
    claims = part(ISSUER.claims())
    for alg in ("none", "None", "NONE", "", None):
        for signature in ("", ISSUER.token().split(".")[2]):
            header = part({"alg": alg, "typ": "at+jwt", "kid": ISSUER.key.kid})
            assert "algorithm" in why(f"{header}.{claims}.{signature}")


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_hs_rs_confusion_a_public_key_is_no_secret(algorithm: str) -> None:
    issuer = Issuer(algorithm="RS256")
    from cryptography.hazmat.primitives import serialization

    raw = issuer.key._key.public_key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secrets = [raw, raw.strip(), json.dumps(issuer.key.public_jwk()).encode()]
    head = f"{part({'alg': algorithm, 'typ': 'at+jwt', 'kid': issuer.key.kid})}.{part(issuer.claims())}"
    for secret in secrets:
        mac = hmac.digest(secret, head.encode(), getattr(hashlib, f"sha{algorithm[2:]}"))
        forged = f"{head}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
        assert "algorithm" in why(forged, issuer.verifier())


def test_an_algorithm_that_the_server_does_not_take_is_refused() -> None:
    assert "algorithm" in why(ISSUER.token(), ISSUER.verifier(algorithms=["RS256"]))


@pytest.mark.parametrize("typ", ["JWT", "dpop+jwt", "id+jwt", "at+jwt2", ""])
def test_a_token_of_the_wrong_typ_is_refused(typ: object) -> None:
    """An ID token is not for the server."""
    assert "at+jwt" in why(ISSUER.token(header={"typ": typ}))


def test_typ_may_have_its_prefix_and_any_case() -> None:
    for typ in ("application/at+jwt", "AT+JWT"):
        assert ISSUER.verifier()(ISSUER.token(header={"typ": typ})).subject == "ann"


def test_an_issuer_of_old_says_jwt_or_nothing() -> None:
    verifier = ISSUER.verifier(typ=None)
    for typ in ("JWT", "at+jwt", "application/JWT"):
        assert verifier(ISSUER.token(header={"typ": typ})).subject == "ann"
    for typ in ("dpop+jwt", "logout+jwt", "secevent+jwt", ""):
        assert "another type" in why(ISSUER.token(header={"typ": typ}), verifier)


def test_a_token_signed_with_the_wrong_key_is_refused() -> None:
    stranger = Issuer()
    forged = stranger.token(header={"kid": ISSUER.key.kid})
    assert "signature" in why(forged)
    head, claims, signature = ISSUER.token("ann").split(".")
    altered = part(ISSUER.claims("bob"))
    assert "signature" in why(f"{head}.{altered}.{signature}")
    assert "signature" in why(f"{head}.{claims}.{ISSUER.token('ann').split('.')[2]}")


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u"])
def test_a_token_that_brings_its_own_key_is_refused(name: str) -> None:
    stranger = Issuer()
    value = stranger.key.public_jwk() if name == "jwk" else "https://evil.example/jwks"
    assert why(stranger.token(header={name: value, "kid": ISSUER.key.kid}))


def test_a_token_of_another_issuer_is_refused() -> None:
    for issuer in ("https://evil.example", f"{ISSUER.url}/", None, 7, [ISSUER.url]):
        assert "issuer" in why(ISSUER.token(iss=issuer))


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("exp", None),
        ("exp", "soon"),
        ("exp", True),
        ("exp", 1e300),
        ("nbf", "later"),
        ("sub", None),
        ("sub", ""),
        ("sub", 7),
        ("aud", 7),
        ("aud", [RESOURCE, 7]),
        ("scope", 7),
        ("scope", {"a": 1}),
        ("scope", ["a", 7]),
        ("cnf", "key"),
        ("cnf", {}),
        ("cnf", {"x5t#S256": "abc"}),
        ("cnf", {"jkt": "abc", "x5t#S256": "abc"}),
        ("cnf", {"jkt": 7}),
    ],
)
def test_a_token_with_missing_claims_or_wrong_ones_is_refused(claim: str, value: object) -> None:
    assert why(ISSUER.token(**{claim: value}) if claim != "sub" else ISSUER.token(value))  # type: ignore[arg-type]


def test_a_token_without_audience_is_for_none() -> None:
    assert ISSUER.verifier()(ISSUER.token(aud=None)).audience == ()


def test_scopes_and_client_come_under_the_names_that_issuers_use() -> None:
    def scopes(**claims: object) -> frozenset[str]:
        return ISSUER.verifier()(ISSUER.token(scope=None, **claims)).scopes

    assert scopes() == frozenset()
    assert scopes(scp="  a  b ") == {"a", "b"}
    assert scopes(scp="a b") == scopes(scp=["a", "b"]) == {"a", "b"}
    assert ISSUER.verifier()(ISSUER.token(client_id=None, azp="x")).client_id == "x"
    assert ISSUER.verifier()(ISSUER.token(client_id=7)).client_id is None
    assert ISSUER.verifier()(ISSUER.token(cnf={"jkt": "thumb"})).confirmation == "thumb"


@pytest.mark.parametrize("white", ["\t", "\n", "\r\n", "\x0b", "\x85", "\u00a0", "\u2028", "\u3000"])
def test_scopes_are_separated_by_the_space_alone(white: str) -> None:
    found = ISSUER.verifier()(ISSUER.token(scope=f"a x{white}b"))
    assert found.scopes == {"a", f"x{white}b"}
    answer = Desk(scope=f"a{white}b").verifier()("token")
    assert answer is not None
    assert answer.scopes.isdisjoint({"a", "b"})


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c", "a.b.c.d", "..", "é.é.é", "x" * 20_000])
def test_what_is_no_token_is_refused(token: str) -> None:
    assert why(token)


# -- their keys ------------------------------------------------------------------------------------------


class Keys:
    """A key set behind a URL."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer, self.fetched = issuer, 0
        self.gate = threading.Event()
        self.gate.set()
        self.answer: Any = None
        self.problem: Exception | None = None

    def __call__(self, url: str) -> Any:
        self.fetched += 1
        assert url == "https://auth.example.com/jwks"
        assert self.gate.wait(PATIENCE)
        if self.problem is not None:
            raise self.problem
        return self.issuer.jwks() if self.answer is None else self.answer

    def verifier(self, **options: Any) -> JwtVerifier:
        return JwtVerifier(self.issuer.url, jwks_uri="https://auth.example.com/jwks", fetch=self, **options)


def test_keys_come_from_a_url_within_bounds() -> None:
    issuer = Issuer()
    answers: Json = {"/jwks": (200, json.dumps(issuer.jwks()).encode()), "/huge": (200, b"[" * 1_000_000)}
    answers["/error"] = (500, b"{}")
    answers["/page"] = (200, b"<html>")

    def handle(request: Any, wire: Any) -> None:
        status, body = answers[request.target]
        wire.answer(status, body, "Content-Type: application/json")

    with web(handle) as site:
        base = site.url.rpartition("/")[0]
        for path in answers:
            verifier = JwtVerifier(issuer.url, jwks_uri=f"{base}{path}")
            if path == "/jwks":
                assert verifier(issuer.token()).subject == "ann"
            else:
                with pytest.raises(CannotVerify):
                    verifier(issuer.token())
        asked = len(site.requests)
        with pytest.raises(CannotVerify):
            JwtVerifier(issuer.url, jwks_uri="https://127.0.0.1:1/jwks")(issuer.token())
        assert len(site.requests) == asked


def test_keys_that_come_slowly_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_verifiers, "KEYS_SECONDS", 0.2)
    issuer = Issuer()
    with web(lambda request, wire: wire.site.over.wait(PATIENCE)) as site:
        begun = time.monotonic()
        with pytest.raises(CannotVerify):
            JwtVerifier(issuer.url, jwks_uri=site.url)(issuer.token())
        assert time.monotonic() - begun < PATIENCE / 2


def test_an_introspection_asks_a_url() -> None:
    def handle(request: Any, wire: Any) -> None:
        assert request.headers["authorization"].startswith("Basic ")
        form = parse_qs(request.body.decode())
        good = form["token"] == ["good"]
        answer = {"active": good, "sub": "ann"} if form["token"] != ["error"] else {"error": "x"}
        wire.answer(500 if "error" in answer else 200, json.dumps(answer).encode())

    with web(handle) as site:
        verifier = Introspection(site.url, "notes", "secret")
        found = verifier("good")
        assert found is not None
        assert found.subject == "ann"
        assert verifier("bad") is None
        with pytest.raises(CannotVerify, match="status 500"):
            verifier("error")


def test_keys_are_fetched_once_for_many_threads() -> None:
    keys = Keys(Issuer())
    verifier, token = keys.verifier(), keys.issuer.token()
    keys.gate.clear()
    with ThreadPoolExecutor(20) as pool:
        found = [pool.submit(verifier, token) for _ in range(20)]
        assert eventually(lambda: keys.fetched == 1)
        keys.gate.set()
        assert {future.result(PATIENCE).subject for future in found} == {"ann"}
    assert keys.fetched == 1


def test_a_key_that_is_new_is_fetched_and_an_old_one_is_gone() -> None:
    keys = Keys(Issuer())
    verifier, old = keys.verifier(pause_seconds=0.01), keys.issuer.token()
    assert verifier(old).subject == "ann"
    keys.issuer.rotate()
    time.sleep(0.02)
    assert verifier(keys.issuer.token("bob")).subject == "bob"
    assert keys.fetched == 2
    assert "key" in why(old, verifier)


def test_a_flood_of_unknown_kids_causes_at_most_one_fetch_in_an_interval() -> None:
    keys = Keys(Issuer())
    verifier = keys.verifier(pause_seconds=3600.0)
    good, stranger = keys.issuer.token(), Issuer()
    assert verifier(good).subject == "ann"
    floods = [stranger.token(header={"kid": f"unknown {number}"}) for number in range(50)]
    with ThreadPoolExecutor(10) as pool:
        for future in [pool.submit(why, token, verifier) for token in floods]:
            assert "key" in future.result(PATIENCE)
    assert keys.fetched == 1
    assert verifier(good).subject == "ann"


def test_keys_that_cannot_be_had_are_no_fault_of_the_token() -> None:
    keys = Keys(Issuer())
    for answer, problem in (
        (None, OSError("no route")),
        ("nonsense", None),
        ({"keys": 7}, None),
        ({"keys": [{}] * 1000}, None),
    ):
        keys.answer, keys.problem = answer, problem
        with pytest.raises(CannotVerify) as refused:
            keys.verifier()(keys.issuer.token())
        assert refused.value.retry_after > 1.0


def test_old_keys_are_good_while_new_ones_cannot_be_had() -> None:
    keys = Keys(Issuer())
    verifier, token = keys.verifier(fresh_seconds=0.01, pause_seconds=0.01), keys.issuer.token()
    verifier(token)
    keys.problem = OSError("no route")
    for _ in range(3):
        time.sleep(0.02)
        assert verifier(token).subject == "ann"
    assert keys.fetched > 2


def test_a_key_of_another_type_in_the_set_is_passed_over() -> None:
    keys = Keys(Issuer())
    keys.answer = {"keys": [{"kty": "oct", "k": "AAAA"}, {"kty": "new"}, 7, *keys.issuer.jwks()["keys"]]}
    assert keys.verifier()(keys.issuer.token()).subject == "ann"


def test_a_key_set_may_be_given_as_it_is() -> None:
    issuer = Issuer()
    assert JwtVerifier(issuer.url, jwks=issuer.jwks())(issuer.token()).subject == "ann"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "jwks_uri, or in jwks"),
        ({"jwks": {"keys": []}, "jwks_uri": "https://a.example"}, "jwks_uri, or in jwks"),
        ({"jwks": {"keys": 7}}, "key set"),
        ({"jwks": {"keys": []}, "algorithms": ["HS256"]}, "algorithms"),
        ({"jwks": {"keys": []}, "algorithms": ["none"]}, "algorithms"),
        ({"jwks": {"keys": []}, "algorithms": []}, "algorithms"),
        ({"jwks": {"keys": []}, "algorithms": "ES256"}, "algorithms"),
        ({"jwks": {"keys": []}, "pause_seconds": 0}, "pause_seconds"),
        ({"jwks": {"keys": []}, "typ": 7}, "typ"),
    ],
)
def test_a_verifier_that_cannot_be_is_refused(options: Json, problem: str) -> None:
    with pytest.raises((ValueError, TypeError, jose.JoseError), match=problem):
        JwtVerifier("https://auth.example.com", **options)


@pytest.mark.parametrize("url", ["http://notes.internal/x", "http://192.168.1.5/x", "http://8.8.8.8/x"])
def test_who_is_asked_over_http_is_on_this_machine_or_was_allowed(url: str) -> None:
    def jwt(url: str, **options: Any) -> JwtVerifier:
        return JwtVerifier("https://auth.example.com", jwks_uri=url, **options)

    def introspection(url: str, **options: Any) -> Introspection:
        return Introspection(url, "notes", "secret", **options)

    for made, name in (jwt, "jwks_uri"), (introspection, "url"):
        with pytest.raises(ValueError, match=rf"^{name} is http to another machine.*allow_http=True"):
            made(url)
        made(url, allow_http=True)
        for good in ("http://127.0.0.1:1/x", "http://localhost/x", "http://[::1]/x", "https://8.8.8.8/x"):
            made(good)
        for odd in (
            "auth.example.com/x",
            "ftp://a.example",
            "https://",
            "https://[x",
            "https://u:hidden@a.example",
        ):
            with pytest.raises(ValueError, match=rf"^{name} is a URL that begins with https") as problem:
                made(odd, allow_http=True)
            assert "hidden" not in str(problem.value)
    jwt(url, fetch=lambda url: {})  # how it is asked is the author's own affair
    introspection(url, post=lambda url, form, headers: (200, {}))


def test_a_verifier_shows_its_issuer_and_no_keys() -> None:
    assert repr(ISSUER.verifier()) == f"JwtVerifier({ISSUER.url!r})"


# -- introspection -----------------------------------------------------------------------------------------


class Desk:
    """An introspection end-point."""

    def __init__(self, **answer: Any) -> None:
        self.answer: Any = {"active": True, "sub": "ann", "aud": RESOURCE, "scope": "a b", **answer}
        self.status = 200
        self.asked: list[tuple[str, Json, Json]] = []
        self.problem: Exception | None = None
        self.time = 1000.0

    def __call__(self, url: str, form: bytes, headers: Any) -> tuple[int, Any]:
        self.asked.append((url, {name: value[0] for name, value in parse_qs(form.decode()).items()}, headers))
        if self.problem is not None:
            raise self.problem
        return self.status, self.answer

    def verifier(self, **options: Any) -> Introspection:
        return Introspection(
            "https://auth.example.com/introspect",
            "notes",
            "s:cret/+",
            post=self,
            now=lambda: self.time,
            **options,
        )


def test_the_authorization_server_says_what_a_token_is() -> None:
    desk = Desk(client_id="editor", iss="https://auth.example.com", exp=2000, nbf=1, cnf={"jkt": "thumb"})
    found = desk.verifier()("token")
    assert found is not None
    assert (found.subject, found.client_id, found.issuer) == ("ann", "editor", "https://auth.example.com")
    assert (found.scopes, found.audience) == ({"a", "b"}, (RESOURCE,))
    assert (found.expires_at, found.not_before, found.confirmation) == (2000.0, 1, "thumb")
    ((url, form, headers),) = desk.asked
    assert url == "https://auth.example.com/introspect"
    assert form == {"token": "token", "token_type_hint": "access_token"}
    assert base64.b64decode(headers["Authorization"].split()[1]) == b"notes:s%3Acret%2F%2B"


def test_the_server_may_show_who_it_is_in_the_form() -> None:
    desk = Desk()
    found = desk.verifier(auth_method="client_secret_post", issuer="https://a.example")("token")
    assert found is not None
    assert found.issuer == "https://a.example"
    ((_, form, headers),) = desk.asked
    assert (form["client_id"], form["client_secret"]) == ("notes", "s:cret/+")
    assert "Authorization" not in headers


@pytest.mark.parametrize("active", [False, None, "true", 1])
def test_a_token_that_is_not_active_is_none(active: object) -> None:
    assert Desk(active=active).verifier()("token") is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), True, "soon"])
@pytest.mark.parametrize("name", ["exp", "nbf"])
def test_an_answer_with_a_time_that_is_none_is_no_token(name: str, value: object) -> None:
    with pytest.raises(InvalidToken, match=f"{name} is no time"):
        Desk(**{name: value}).verifier()("token")


@pytest.mark.parametrize("token_type", ["refresh_token", "refresh", "id_token", 7])
def test_an_active_token_of_another_type_is_no_access_token(token_type: object) -> None:
    with pytest.raises(InvalidToken, match="another type"):
        Desk(token_type=token_type).verifier()("token")
    for good in ("Bearer", "DPoP", "bearer", None, "N_A"):
        assert Desk(token_type=good).verifier()("token") is not None


def test_answers_are_kept_for_a_while_and_no_longer_than_the_token() -> None:
    desk = Desk(exp=1010)
    verifier = desk.verifier(cache_seconds=30.0)
    for _ in range(3):
        assert verifier("token") is not None
    assert len(desk.asked) == 1
    desk.time += 11.0
    verifier("token")
    assert len(desk.asked) == 2
    desk.answer = {"active": False}
    assert verifier("another") is None
    assert verifier("another") is None
    assert len(desk.asked) == 3


def test_without_a_cache_a_token_that_is_revoked_is_refused_at_once() -> None:
    desk = Desk()
    verifier = desk.verifier(cache_seconds=0)
    assert verifier("token") is not None
    desk.answer = {"active": False}
    assert verifier("token") is None


def test_the_answers_that_are_kept_are_bounded_and_have_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_verifiers, "MAX_ANSWERS", 3)
    desk = Desk()
    verifier = desk.verifier()
    for token in ("one", "two", "three", "one", "four"):
        verifier(token)
    assert len(desk.asked) == 4
    verifier("one")
    assert len(desk.asked) == 4
    verifier("two")
    assert len(desk.asked) == 5
    assert len(verifier._answers) == 3
    assert all(len(key) == 32 for key in verifier._answers)
    assert "three" not in str(verifier._answers)
    assert desk.verifier()._key != verifier._key


@pytest.mark.parametrize(
    "answer", [{"exp": "soon"}, {"aud": 7}, {"scope": 7}, {"cnf": {"x5t#S256": "a"}}, {"nbf": "x"}]
)
def test_an_answer_that_makes_no_sense_is_no_token(answer: Json) -> None:
    with pytest.raises(InvalidToken):
        Desk(**answer).verifier()("token")


def test_an_authorization_server_that_does_not_answer_is_no_fault_of_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk()
    verifier = desk.verifier()
    for status, answer, problem in (
        (500, {}, None),
        (401, {"error": "invalid_client"}, None),
        (200, ["active"], None),
        (200, {}, OSError("no route to secret-token")),
    ):
        desk.status, desk.answer, desk.problem = status, answer, problem
        with pytest.raises(CannotVerify) as refused:
            verifier("secret-token")
        assert "secret-token" not in f"{refused.value}{caplog.text}"


def test_questions_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_verifiers, "MAX_AT_ONCE", 1)
    monkeypatch.setattr(token_verifiers, "MAX_WAIT_SECONDS", 0.05)
    gate, begun = threading.Event(), threading.Event()

    def post(url: str, form: bytes, headers: Any) -> tuple[int, Any]:
        begun.set()
        assert gate.wait(PATIENCE)
        return 200, {"active": False}

    verifier = Introspection("https://auth.example.com/introspect", "notes", "secret", post=post)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(verifier, "one")
        assert begun.wait(PATIENCE)
        with pytest.raises(CannotVerify, match="too many"):
            verifier("two")
        gate.set()
        assert first.result(PATIENCE) is None


def test_a_forked_child_asks_for_itself() -> None:
    desk = Desk()
    verifier = desk.verifier()
    verifier("token")
    child = os.fork()
    if child == 0:
        verifier("token")
        os._exit(len(desk.asked))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_an_introspection_shows_no_secret() -> None:
    assert repr(Desk().verifier()) == "Introspection('https://auth.example.com/introspect')"
    with pytest.raises(ValueError, match="auth_method"):
        Desk().verifier(auth_method="none")
    with pytest.raises(ValueError, match="cache_seconds"):
        Desk().verifier(cache_seconds=-1)
