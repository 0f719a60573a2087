"""extensions/dpop: proofs of possession, made and checked."""

import base64
import hashlib
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import json_values

from mcp_ref.extensions import dpop
from mcp_ref.extensions.dpop import InvalidProof, Nonces, Proofs, Replays, UseNonce, check_proof
from mcp_ref.runtime.jose import JoseError, load_key, new_key, peek, sign

URL = "https://server.test/mcp"
TOKEN = "an-access-token"
ATH = base64.urlsafe_b64encode(hashlib.sha256(TOKEN.encode()).digest()).rstrip(b"=").decode()
NOW = 1_800_000_000.0
KEY = new_key()
CLAIMS = {"jti": "1", "htm": "POST", "htu": URL, "iat": int(NOW), "ath": ATH}


@pytest.fixture
def proofs():
    return Proofs(KEY, now=lambda: NOW)


def check(proof, **other):
    """What a resource server does with a proof."""
    given = {"method": "POST", "url": URL, "access_token": TOKEN, "seen": Replays(), "skew": 30.0, "now": NOW}
    return check_proof(proof, **given | other)


def refused(proof, **other):
    """Why a proof is refused; nothing of it is repeated."""
    with pytest.raises(InvalidProof) as problem:
        check(proof, **other)
    assert TOKEN not in str(problem.value)
    assert not proof or proof.split(".")[0] not in str(problem.value)
    assert problem.value.error == "invalid_dpop_proof"
    return str(problem.value)


def made(header=None, key=KEY, algorithm="ES256", **claims):
    """A proof with any claims; None takes one away."""
    whole = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    public = {"typ": "dpop+jwt", "jwk": key.public_jwk()}
    return sign(whole, key, algorithm=algorithm, header=public | (header or {}))


# -- client ----------------------------------------------------------------------------------------


@pytest.mark.spec("extensions/dpop/proof-form", "extensions/dpop/proof-binds-token")
def test_a_proof_has_the_form_of_the_rfc(proofs):
    """RFC 9449, section 4.2."""
    header, claims = peek(proofs.proof("post", URL, access_token=TOKEN))
    jwk = header["jwk"]
    assert header == {"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}
    assert set(jwk) == {"kty", "crv", "x", "y"}
    jti = claims.pop("jti")
    assert len(jti) >= 16
    assert claims == {"htm": "POST", "htu": URL, "iat": int(NOW), "ath": ATH}
    assert proofs.thumbprint == load_key(jwk).thumbprint() == proofs.key.thumbprint()


@pytest.mark.spec("extensions/dpop/proof-binds-token")
def test_a_proof_for_an_authorization_server_has_no_hash_of_a_token(proofs):
    _, claims = peek(proofs.proof("POST", "https://issuer.test/token"))
    assert set(claims) == {"jti", "htm", "htu", "iat"}


@pytest.mark.spec("extensions/dpop/proof-per-request")
def test_every_proof_is_a_new_one(proofs):
    made = [proofs.proof("POST", URL, access_token=TOKEN) for _ in range(50)]
    assert len({peek(proof)[1]["jti"] for proof in made}) == 50


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "RS256", "EdDSA"])
def test_a_client_has_a_key_of_its_own_for_an_algorithm(algorithm):
    one, other = Proofs(algorithm=algorithm), Proofs(algorithm=algorithm)
    assert one.thumbprint != other.thumbprint
    proof = one.proof("GET", URL, access_token=TOKEN)
    assert check(proof, method="GET", now=time.time()) == one.thumbprint


def test_a_key_that_is_not_for_the_algorithm_cannot_sign():
    with pytest.raises(JoseError, match="cannot sign"):
        Proofs(KEY, "RS256").proof("POST", URL)


def test_nothing_of_the_private_key_is_shown(proofs):
    assert KEY.private_jwk()["d"] not in proofs.proof("POST", URL) + repr(proofs) + repr(vars(proofs))


@pytest.mark.parametrize(
    ("url", "htu"),
    [
        ("https://server.test/mcp?x=1&y#z", "https://server.test/mcp"),
        ("HTTPS://Server.Test:443/mcp", "https://server.test/mcp"),
        ("http://server.test:80", "http://server.test/"),
        ("https://server.test:8443/a%2Fb/", "https://server.test:8443/a%2Fb/"),
        ("https://me:secret@server.test/mcp", "https://server.test/mcp"),
        ("http://[::1]:3000/mcp", "http://[::1]:3000/mcp"),
    ],
)
@pytest.mark.spec("extensions/dpop/proof-form")
def test_the_url_of_a_proof_has_no_query_and_no_fragment(proofs, url, htu):
    assert peek(proofs.proof("POST", url))[1]["htu"] == htu


@pytest.mark.parametrize("url", ["", "file:///x", "https://", "https://h:99999/", "mcp"])
def test_a_proof_is_for_a_url_of_http(proofs, url):
    with pytest.raises(ValueError):
        proofs.proof("POST", url)


# -- nonces of the client --------------------------------------------------------------------------

TOKEN_URL = "https://issuer.test/token"


@pytest.mark.spec("extensions/dpop/nonce-retry")
def test_after_a_nonce_was_sent_a_new_proof_has_it(proofs):
    assert proofs.keep_nonce(TOKEN_URL, "n-1", of_resource=False)
    assert peek(proofs.proof("POST", TOKEN_URL))[1]["nonce"] == "n-1"
    assert not proofs.keep_nonce(TOKEN_URL, "n-1", of_resource=False)  # nothing new: no reason to ask again
    assert proofs.keep_nonce(TOKEN_URL, "n-2", of_resource=False)
    assert peek(proofs.proof("POST", TOKEN_URL))[1]["nonce"] == "n-2"
    assert peek(proofs.proof("POST", TOKEN_URL, nonce="mine"))[1]["nonce"] == "mine"


@pytest.mark.spec("extensions/dpop/nonce-of-its-server")
def test_a_nonce_goes_to_its_server_only(proofs):
    proofs.keep_nonce(TOKEN_URL, "of-issuer", of_resource=False)
    proofs.keep_nonce(URL, "of-server", of_resource=True)
    assert peek(proofs.proof("POST", "https://issuer.test:443/other"))[1]["nonce"] == "of-issuer"
    assert peek(proofs.proof("POST", URL, access_token=TOKEN))[1]["nonce"] == "of-server"
    for url in ("https://issuer.test:8443/token", "http://issuer.test/token", "https://other.test/token"):
        assert "nonce" not in peek(proofs.proof("POST", url))[1]


@pytest.mark.spec("extensions/dpop/nonce-of-its-server")
def test_two_servers_of_one_origin_have_their_own_nonces(proofs):
    proofs.keep_nonce("https://one.test/token", "of-issuer", of_resource=False)
    proofs.keep_nonce("https://one.test/mcp", "of-server", of_resource=True)
    assert peek(proofs.proof("POST", "https://one.test/token"))[1]["nonce"] == "of-issuer"
    assert peek(proofs.proof("POST", "https://one.test/mcp", access_token=TOKEN))[1]["nonce"] == "of-server"


@pytest.mark.parametrize("nonce", [None, "", "a b", 'a"b', "a\\b", "a\r\nb", "ä", "x" * 1025, "\x7f"])
def test_what_is_no_nonce_is_not_kept(proofs, nonce):
    assert not proofs.keep_nonce(URL, nonce, of_resource=True)
    assert proofs.nonce(URL, of_resource=True) is None


def test_nonces_of_a_bounded_number_of_servers_are_kept(proofs):
    for number in range(dpop.MAX_ORIGINS + 10):
        proofs.keep_nonce(f"https://h{number}.test/", "n", of_resource=True)
    assert proofs.nonce("https://h9.test/", of_resource=True) is None
    assert proofs.nonce("https://h10.test/", of_resource=True) == "n"


# -- server ----------------------------------------------------------------------------------------


@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_a_proof_of_a_client_is_accepted(proofs):
    proof = proofs.proof("POST", URL + "?session=1", access_token=TOKEN)
    assert check(proof, url=URL + "?other=2", bound_to=proofs.thumbprint) == proofs.thumbprint


@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_a_proof_is_for_one_request():
    assert "no proof" in refused(None)
    assert "another method" in refused(made(htm="GET"))
    assert "another method" in refused(made(htm="post"))
    assert "another method" in refused(made(htm=None))
    assert "another URL" in refused(made(htu="https://other.test/mcp"))
    assert "another URL" in refused(made(htu=None))
    assert "another URL" in refused(made(htu=5))
    assert "another URL" in refused(made(htu="https://server.test:99999/mcp"))
    assert "access token" in refused(made(ath=None))
    assert "access token" in refused(made(), access_token="another")
    check(made(ath=None), access_token=None)


@pytest.mark.parametrize(
    "htu",
    [
        "HTTPS://SERVER.test/a/b",
        "https://server.test:443/a/b",
        "https://server.test/%61/b",
        "https://server.test/a/./c/../b",
        "https://server.test/a/b?x=1",
        "https://server.test/a/b#x",
        "https://server.test/../a/b",
    ],
)
@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_urls_are_compared_after_normalization(htu):
    """RFC 9449, section 4.3; RFC 3986, sections 6.2.2 and 6.2.3."""
    check(made(htu=htu), url="https://server.test/a/b")


@pytest.mark.parametrize(
    "htu",
    [
        "https://server.test/a/b/",
        "https://server.test/A/b",
        "https://server.test/a%2Fb",
        "https://server.test/a/b/.",
        "http://server.test/a/b",
        "https://server.test:444/a/b",
        "https://server.test.evil.test/a/b",
        "https://server.test",
        "//server.test/a/b",
        "/a/b",
        "",
    ],
)
@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_other_urls_are_other_urls(htu):
    assert "another URL" in refused(made(htu=htu), url="https://server.test/a/b")


def test_percent_encodings_have_one_form():
    check(made(htu="https://server.test/a%2fb"), url="https://server.test/a%2Fb")
    check(made(htu="https://server.test/a/."), url="https://server.test/a/")


@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_the_key_of_a_proof_is_public_and_asymmetric():
    for jwk in (KEY.private_jwk(), {"kty": "oct", "k": "AAAA"}, {}, new_key().public_jwk()):
        assert "not accepted" in refused(made({"jwk": jwk}))
    assert "typ" not in refused(made({"typ": "JWT"}))
    assert "not accepted" in refused(made({"typ": "JWT"}))
    assert "not accepted" in refused(made(), algorithms=["RS256"])


@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_a_proof_of_another_key_does_not_help_a_stolen_token(proofs):
    thief = Proofs(now=lambda: NOW)
    proof = thief.proof("POST", URL, access_token=TOKEN)
    assert "another key" in refused(proof, bound_to=proofs.thumbprint)
    assert "another key" in refused(proof, bound_to="")


@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_tokens_expired_and_not_yet_valid_and_clock_skew():
    """Proofs, whose time is iat."""
    for iat in (NOW + 30, NOW, NOW - 90):
        check(made(iat=iat))
    for iat in (NOW + 31, NOW - 91, 0, -1, 10**300):
        assert "too old, or of the future" in refused(made(iat=iat))
    for iat in (None, "1", True, []):
        assert "when it was made" in refused(made(iat=iat))


@pytest.mark.spec("extensions/dpop/jti-once")
def test_a_proof_is_accepted_once(proofs):
    seen, proof = Replays(), proofs.proof("POST", URL, access_token=TOKEN)
    check(proof, seen=seen)
    assert "used before" in refused(proof, seen=seen)
    assert "used before" in refused(proof, seen=seen, now=NOW + 89)
    check(proofs.proof("POST", URL, access_token=TOKEN), seen=seen)


@pytest.mark.spec("extensions/dpop/jti-once")
def test_an_id_is_remembered_as_long_as_its_proof_would_be_accepted():
    seen = Replays()
    early, late = made(iat=NOW + 30), made(iat=NOW - 90, jti="2")
    check(early, seen=seen)
    check(late, seen=seen)
    for now in (NOW + 1, NOW + 60, NOW + 119.9):
        assert "used before" in refused(early, seen=seen, now=now)
    assert "too old" in refused(early, seen=seen, now=NOW + 120.1)


def test_a_proof_that_is_refused_is_not_used_up():
    seen, proof = Replays(), made()
    refused(proof, seen=seen, url="https://other.test/")
    refused(proof, seen=seen, bound_to="x")
    check(proof, seen=seen)


def test_ids_are_those_of_one_key():
    seen = Replays()
    check(made(), seen=seen)
    check(made(key=new_key()), seen=seen)
    assert len(seen) == 2


@pytest.mark.parametrize("jti", [None, "", 5, [], "x" * 257])
def test_an_id_is_a_short_text(jti):
    assert "no id" in refused(made(jti=jti))


def test_an_id_may_be_any_text():
    check(made(jti="ä \n\0 " * 40))


def test_the_memory_of_ids_is_bounded_in_a_flood():
    """Of one client, which shuts out itself; then of many, until the first ends. None is accepted twice."""
    seen = Replays(100)
    for number in range(25):
        seen.add("flooding", str(number), now=NOW, seconds=120)
    for number in range(25, 1000):
        with pytest.raises(InvalidProof, match="too many proofs of this key"):
            seen.add("flooding", str(number), now=NOW, seconds=120)
    seen.add("another", "1", now=NOW + 1, seconds=120)
    for number in range(74):
        seen.add(f"key {number}", "1", now=NOW + 2, seconds=120)
    with pytest.raises(InvalidProof, match="too many proofs within"):
        seen.add("one more", "1", now=NOW + 3, seconds=120)
    with pytest.raises(InvalidProof, match="used before"):
        seen.add("another", "1", now=NOW + 3, seconds=120)
    assert len(seen) == 100
    seen.add("one more", "1", now=NOW + 120, seconds=120)
    seen.add("flooding", "1", now=NOW + 120, seconds=120)
    assert len(seen) == 77
    seen.add("last", "1", now=NOW + 1000, seconds=120)
    assert len(seen) == 1
    assert seen._by_key == {"last": 1}


def test_a_flood_of_a_hundred_thousand_is_no_burden():
    seen = Replays()
    began = time.perf_counter()
    for number in range(dpop.MAX_PROOFS):
        seen.add(f"key {number % 10}", str(number), now=NOW, seconds=120)
    assert len(seen) == dpop.MAX_PROOFS
    seen.add("x", "x", now=NOW + 500, seconds=120)
    assert len(seen) == 1
    assert time.perf_counter() - began < 30


def test_of_threads_with_one_proof_one_is_accepted():
    seen, proof, outcomes = Replays(), made(), []

    def send():
        try:
            outcomes.append(check(proof, seen=seen))
        except InvalidProof:
            outcomes.append(None)

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes, key=str) == [KEY.thumbprint()] + [None] * 19 or outcomes.count(None) == 19


# -- nonces of the server --------------------------------------------------------------------------

SECRET = "a secret of sixteen bytes"


@pytest.mark.spec("extensions/dpop/nonce-required", "extensions/dpop/nonce-retry")
def test_a_server_that_wants_nonces_gets_them_at_the_second_attempt(proofs):
    nonces = Nonces(SECRET, now=lambda: NOW)
    with pytest.raises(UseNonce) as problem:
        check(proofs.proof("POST", URL, access_token=TOKEN), nonces=nonces)
    assert problem.value.error == "use_dpop_nonce"
    assert isinstance(problem.value, InvalidProof)
    assert proofs.keep_nonce(URL, problem.value.nonce, of_resource=True)
    assert check(proofs.proof("POST", URL, access_token=TOKEN), nonces=nonces) == proofs.thumbprint


@pytest.mark.spec("extensions/dpop/nonce-required")
def test_a_nonce_changes_with_time_and_is_good_for_a_while():
    now = [NOW]
    nonces = Nonces(SECRET, 100, now=lambda: now[0])
    first = nonces.new()
    assert nonces.new() == first
    now[0] += 100
    assert nonces.new() != first
    nonces.check(first)
    now[0] += 100
    with pytest.raises(UseNonce):
        nonces.check(first)
    now[0] -= 300  # nobody has one of later
    with pytest.raises(UseNonce):
        nonces.check(first)


def test_processes_that_share_a_secret_share_the_nonces():
    one, other, third = Nonces(SECRET), Nonces(SECRET), Nonces()
    other.check(one.new())
    for strange in (third, Nonces(), Nonces("another secret of sixteen")):
        with pytest.raises(UseNonce):
            strange.check(one.new())


@given(nonce=json_values | st.text())
def test_any_other_nonce_is_refused(nonce):
    with pytest.raises(UseNonce) as problem:
        Nonces(SECRET).check(nonce)
    Nonces(SECRET).check(problem.value.nonce)


def test_a_secret_is_not_a_short_one():
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Nonces("short")


# -- any text --------------------------------------------------------------------------------------


@given(text=st.text() | st.text("abcXYZ019-_., ", max_size=80))
def test_any_text_is_no_proof(text):
    with pytest.raises(InvalidProof):
        check(text)


def test_two_proofs_in_one_header_are_none():
    assert "not accepted" in refused(f"{made()}, {made(jti='2')}")


@given(claims=st.dictionaries(st.sampled_from(sorted(CLAIMS)), json_values))
def test_any_claims_are_refused_or_accepted(claims):
    try:
        check(made(**claims))
    except InvalidProof:
        pass
