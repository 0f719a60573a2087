"""runtime/jose: which tokens and keys are accepted, and that all others are a JoseError."""

import base64
import itertools
import json
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import json_values

from mcp_ref.runtime import jose
from mcp_ref.runtime.jose import (
    ASYMMETRIC,
    JoseError,
    Key,
    KeySet,
    UnknownKey,
    audience_of,
    check_times,
    load_key,
    new_key,
    peek,
    sign,
    verify,
    verify_embedded,
)

CLAIMS = {"iss": "https://issuer.test", "sub": "ann", "n": 1, "list": [1, {"deep": "ä"}]}
KEY, OTHER, RSA = new_key(), new_key(), new_key("RS256")
PUBLIC = load_key(KEY.public_jwk())
TOKEN = sign(CLAIMS, KEY, algorithm="ES256")
ES = ["ES256"]


def base64url(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def part(value):
    return base64url(json.dumps(value).encode())


def raw_token(header, claims=CLAIMS, signature=b"x" * 64):
    return f"{part(header)}.{part(claims)}.{base64url(signature)}"


def signed(header, claims=CLAIMS, key=KEY):
    """A token with whatever header, signed with ES256 all the same."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    text = f"{part(header)}.{part(claims) if isinstance(claims, dict) else base64url(claims)}"
    der = key._key.private_key.sign(text.encode(), ec.ECDSA(hashes.SHA256()))
    r, s = utils.decode_dss_signature(der)
    return f"{text}.{base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def pem(key, private=True):
    return key._key.as_pem(private=private).decode()


def refused(token, keys=PUBLIC, algorithms=ES, typ=None):
    """Why a token is refused; nothing of it is repeated."""
    with pytest.raises(JoseError) as problem:
        verify(token, keys, algorithms=algorithms, typ=typ)
    said = str(problem.value)
    assert not any(len(piece) > 3 and piece in said for piece in str(token).split("."))
    return said


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
def test_what_a_key_signs_its_public_half_verifies(algorithm):
    key = RSA if algorithm[:2] in ("RS", "PS") else new_key(algorithm)
    token = sign(CLAIMS, key, algorithm=algorithm)
    found = verify(token, load_key(key.public_jwk()), algorithms=[algorithm])
    assert found.claims == CLAIMS
    assert found.header == {"alg": algorithm, "typ": "JWT", "kid": key.kid}
    assert refused(token, key, [name for name in ASYMMETRIC if name != algorithm])


def test_a_new_key_is_private_and_has_the_id_of_its_thumbprint():
    assert KEY.is_private and not PUBLIC.is_private
    assert KEY.kid == KEY.thumbprint() == PUBLIC.thumbprint()
    assert (KEY.kty, RSA.kty) == ("EC", "RSA")
    assert new_key("RS256").kty == "RSA"


def test_the_thumbprint_is_that_of_the_rfc():
    """RFC 7638, section 3.1."""
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCi"
        "FV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb"
        "9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls"
        "1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    key = load_key({"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"})
    assert key.thumbprint() == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    assert key.kid == "2011-04-29"
    assert (key.is_for("RS256"), key.is_for("PS256")) == (True, False)


@pytest.mark.parametrize("key", [KEY, RSA, new_key("EdDSA")], ids=lambda key: key.kty)
def test_a_key_is_loaded_from_pem_and_from_json(key):
    for form in (pem(key), pem(key).encode(), key.private_jwk(), json.dumps(key.private_jwk()), key):
        loaded = load_key(form)
        assert loaded.is_private
        assert loaded.private_jwk() == key.private_jwk()
    for form in (pem(key, private=False), key.public_jwk()):
        loaded = load_key(form)
        assert not loaded.is_private
        assert loaded.public_jwk() == key.public_jwk()
        with pytest.raises(JoseError, match="public one"):
            loaded.private_jwk()


def test_nothing_of_a_key_is_in_its_repr():
    for key in (KEY, PUBLIC, RSA):
        said = repr(key) + repr(KeySet([key]))
        assert not any(value in said for value in key.public_jwk().values() if len(value) > 4)
    assert repr(KEY) == "<private EC key>"


def test_a_public_key_has_nothing_of_the_private_one():
    for key in (KEY, RSA):
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & key.public_jwk().keys()
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & KeySet([key]).public()["keys"][0].keys()


def small_rsa():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 1024)
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def other_pem(kind):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, x25519

    made = {
        "dsa": lambda: dsa.generate_private_key(1024),
        "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
        "brainpool": lambda: ec.generate_private_key(ec.BrainpoolP256R1()),
        "x25519": x25519.X25519PrivateKey.generate,
    }
    key = (made[kind.removesuffix(" locked")])()
    lock = serialization.BestAvailableEncryption(b"x") if "locked" in kind else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


@pytest.mark.parametrize("kind", ["dsa", "secp256k1", "brainpool", "x25519", "secp256k1 locked"])
def test_a_pem_that_is_no_key_for_signatures_is_refused(kind):
    with pytest.raises(JoseError):
        load_key(other_pem(kind))


def test_an_rsa_key_that_can_be_broken_or_takes_long_is_refused():
    with pytest.raises(JoseError, match="2048 to 8192 bits"):
        load_key(small_rsa())
    for n, e in (("AQAB", "AQAB"), ("_" * 1600, "AQAB"), ("_" * 400, "A" * 3), ("_" * 400, "_" * 400)):
        with pytest.raises(JoseError, match="2048 to 8192 bits"):
            load_key({"kty": "RSA", "n": n, "e": e})


@pytest.mark.parametrize(
    "given",
    [
        "",
        "no key",
        "{",
        "[]",
        b"\xff\xfe",
        "{}",
        {},
        {"kty": "oct", "k": "c2VjcmV0IHNlY3JldCBzZWNyZXQ"},
        {"kty": ["EC"]},
        {"kty": "EC"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": 5, "y": "AA"},
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "A" * 43},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "ä", "e": "="},
        {"kty": "RSA", "n": "_" * 9000, "e": "AQAB"},
        {**KEY.public_jwk(), "use": "enc"},
        {**KEY.public_jwk(), "alg": "RS256"},
        {**KEY.public_jwk(), "alg": ["ES256"]},
        {**KEY.public_jwk(), "key_ops": ["encrypt"]},
        {**KEY.public_jwk(), "key_ops": 5},
        {**KEY.private_jwk(), "d": OTHER.private_jwk()["d"] + "AA"},
        "x" * (jose.MAX_KEY_CHARACTERS + 1),
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ],
    ids=itertools.count(),
)
def test_what_is_no_key_for_signatures_is_refused(given):
    with pytest.raises(JoseError) as problem:
        load_key(given)
    assert KEY.private_jwk()["d"] not in str(problem.value)


@given(
    value=json_values
    | st.dictionaries(st.sampled_from(["kty", "crv", "x", "y", "n", "e", "d", "kid"]), json_values)
)
def test_any_json_is_a_key_or_an_error(value):
    for kty in ("EC", "RSA", "OKP"):
        given = {"kty": kty, **value} if isinstance(value, dict) else value
        with pytest.raises(JoseError):
            KeySet.of(given)
        assert len(KeySet.of({"keys": [given]})) == 0


@given(data=st.data())
def test_a_key_with_mangled_members_is_a_key_or_an_error(data):
    jwk = {**data.draw(st.sampled_from([KEY, RSA])).private_jwk()}
    name = data.draw(st.sampled_from(sorted(jwk)))
    at = data.draw(st.integers(0, len(jwk[name])))
    jwk[name] = jwk[name][:at] + data.draw(st.text(max_size=2)) + jwk[name][at + 1 :]
    try:
        assert isinstance(load_key(jwk), Key)
    except JoseError:
        pass


# -- key sets --------------------------------------------------------------------------------------


def test_a_key_is_found_by_its_id():
    keys = KeySet.of({"keys": [KEY.public_jwk(), OTHER.public_jwk(), RSA.public_jwk()]})
    assert len(keys) == 3
    assert keys.find(OTHER.kid, "ES256").thumbprint() == OTHER.thumbprint()
    assert keys.find(OTHER.kid, "RS256") is None
    assert keys.find("unknown", "ES256") is None


def test_without_an_id_only_one_key_may_fit():
    keys = KeySet.of({"keys": [KEY.public_jwk(), OTHER.public_jwk(), RSA.public_jwk()]})
    assert keys.find(None, "RS256").thumbprint() == RSA.thumbprint()
    assert keys.find(None, "ES256") is None


def test_of_two_keys_with_one_id_the_one_for_the_algorithm_is_taken():
    keys = KeySet.of({"keys": [{**KEY.public_jwk(), "kid": "1"}, {**RSA.public_jwk(), "kid": "1"}]})
    assert keys.find("1", "ES256").kty == "EC"
    assert keys.find("1", "PS256").kty == "RSA"


def test_keys_of_a_set_that_are_not_understood_are_left_out():
    """RFC 7517, section 5."""
    others = [{"kty": "AKP"}, {"kty": "oct", "k": "AAAA"}, 5, None, {**RSA.public_jwk(), "use": "enc"}]
    keys = KeySet.of({"keys": [*others, KEY.public_jwk()]})
    assert len(keys) == 1
    assert verify(TOKEN, keys, algorithms=ES).claims == CLAIMS


@pytest.mark.parametrize("given", [None, [], "keys", {}, {"keys": {}}, {"keys": [{}] * (jose.MAX_KEYS + 1)}])
def test_what_is_no_key_set_is_refused(given):
    with pytest.raises(JoseError, match="key set"):
        KeySet.of(given)


def test_a_token_of_an_unknown_key_says_so():
    keys = KeySet.of(KeySet([OTHER, RSA]).public())
    with pytest.raises(UnknownKey):
        verify(TOKEN, keys, algorithms=ES)
    assert verify(sign({}, OTHER, algorithm="ES256"), keys, algorithms=ES).claims == {}


@pytest.mark.parametrize("kid", [5, ["x"], None, {}])
def test_an_id_of_a_key_is_a_string(kid):
    token = signed({"alg": "ES256", "kid": kid})
    refused(token, KeySet([KEY, OTHER]))


# -- tokens that are refused -----------------------------------------------------------------------


def test_alg_none_is_refused():
    for name in ("none", "None", "NONE", "nOnE"):
        for signature in (b"", b"x" * 64):
            assert "algorithm" in refused(raw_token({"alg": name}, signature=signature))
    with pytest.raises(ValueError, match="algorithms are a list"):
        verify(raw_token({"alg": "none"}, signature=b""), PUBLIC, algorithms=["none"])


def test_hs_rs_confusion_is_refused():
    """A token that is signed with the public key, which everyone knows, as if it were a shared secret."""
    import hashlib
    import hmac

    for key, algorithm in ((RSA, "RS256"), (KEY, "ES256")):
        for secret in (
            pem(key, private=False),
            pem(key, private=False).strip(),
            json.dumps(key.public_jwk()),
        ):
            text = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': key.kid})}.{part(CLAIMS)}"
            mac = hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()
            token = f"{text}.{base64url(mac)}"
            assert "algorithm" in refused(token, KeySet([key]), [algorithm])
            with pytest.raises(ValueError):
                verify(token, KeySet([key]), algorithms=["HS256"])


def test_wrong_key_is_refused():
    assert "signature" in refused(TOKEN, load_key(OTHER.public_jwk()))
    forged = sign(CLAIMS, load_key({**OTHER.private_jwk(), "kid": KEY.kid}), algorithm="ES256")
    assert "signature" in refused(forged, KeySet([PUBLIC]))


def test_a_key_for_another_algorithm_is_not_used():
    assert "not for the algorithm" in refused(TOKEN, RSA)
    assert "not for the algorithm" in refused(TOKEN, new_key("ES384"))
    limited = load_key({**RSA.public_jwk(), "alg": "PS256"})
    assert "not for the algorithm" in refused(sign({}, RSA, algorithm="RS256"), limited, ["RS256", "PS256"])


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": OTHER.public_jwk()},
        {"jku": "https://attacker.test/keys"},
        {"x5u": "https://attacker.test/certificate"},
    ],
    ids=lambda header: next(iter(header)),
)
def test_a_token_that_brings_its_own_key_is_refused(header):
    token = signed({"alg": "ES256", "kid": OTHER.kid, **header}, key=OTHER)
    assert "names the key" in refused(token)
    assert "names the key" in refused(token, KeySet([OTHER]))


@pytest.mark.parametrize("crit", [["b64"], ["exp"], [], "x", None])
def test_a_token_with_critical_parameters_is_refused(crit):
    assert "crit" in refused(signed({"alg": "ES256", "crit": crit, "b64": False, "exp": 5}))


def test_parameters_that_are_not_critical_are_ignored():
    """RFC 7515, section 4."""
    token = signed({"alg": "ES256", "kid": 5, "b64": True, "new": {"x": 1}, "x5t": "AA", "cty": "x"})
    with pytest.raises(JoseError):
        verify(token, KeySet([PUBLIC]), algorithms=ES)
    token = signed({"alg": "ES256", "new": {"x": 1}, "x5t": "AA"})
    assert verify(token, PUBLIC, algorithms=ES).claims == CLAIMS


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt"])
def test_the_type_of_a_token_is_looked_at_where_asked(typ):
    token = sign(CLAIMS, KEY, algorithm="ES256", header={"typ": typ})
    assert verify(token, PUBLIC, algorithms=ES, typ="at+jwt").claims == CLAIMS
    assert verify(token, PUBLIC, algorithms=ES, typ="application/at+jwt").claims == CLAIMS
    assert verify(token, PUBLIC, algorithms=ES).claims == CLAIMS
    assert "dpop+jwt" in refused(token, typ="dpop+jwt")


@pytest.mark.parametrize("typ", [None, 5, ["at+jwt"], "", "JWT"])
def test_a_token_of_another_type_is_refused(typ):
    assert "at+jwt" in refused(signed({"alg": "ES256", "typ": typ}), typ="at+jwt")


@pytest.mark.parametrize("alg", [None, 5, ["ES256"], {"ES256": 1}, "es256", "ES256 ", ""])
def test_an_algorithm_is_compared_as_it_is(alg):
    assert "algorithm" in refused(signed({"alg": alg}))


@pytest.mark.parametrize("algorithms", [[], ["HS256"], ["ES256", "none"], ["A128KW"], "ES256", "x"])
def test_the_algorithms_to_accept_are_said_and_are_known(algorithms):
    with pytest.raises(ValueError, match="algorithms are a list"):
        verify(TOKEN, PUBLIC, algorithms=algorithms)


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c.d",
        "a.b.c.d.e",
        TOKEN + "\n",
        " " + TOKEN,
        TOKEN + "=",
        TOKEN.replace(".", "=.", 1),
        TOKEN[:-1] + "ä",
        "A" * (jose.MAX_TOKEN_CHARACTERS + 1),
        None,
        b"a.b.c",
        f"{part([])}.{part({})}.AA",
        f"{base64url(b'{')}.{part({})}.AA",
        f"{base64url(b'{}{}')}.{part({})}.AA",
        f"A.{part({})}.AA",
    ],
    ids=itertools.count(),
)
def test_what_is_no_token_is_refused(token):
    refused(token)
    with pytest.raises(JoseError):
        peek(token)


def test_a_header_that_two_readers_understand_differently_is_refused():
    twice = base64url(b'{"alg":"ES256","alg":"none"}')
    assert "no JSON" in refused(f"{twice}.{part({})}.AA")


@pytest.mark.parametrize(
    "claims", [b"[]", b"5", b"", b"{", b'{"a":1,"a":2}', b"\xff", b'{"a":NaN}', b"[" * 300]
)
def test_claims_are_one_object(claims):
    token = signed({"alg": "ES256"}, claims)
    assert refused(token)
    with pytest.raises(JoseError):
        peek(token)


def test_a_signature_is_written_in_one_way_only():
    """Bits of the last character that stand for nothing: else one token would have several texts."""
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for character in last:
        if character != TOKEN[-1]:
            refused(TOKEN[:-1] + character)


@given(text=st.text() | st.text("abcXYZ019-_.", max_size=80))
def test_any_text_is_an_error(text):
    for keys in (PUBLIC, KeySet([PUBLIC])):
        with pytest.raises(JoseError):
            verify(text, keys, algorithms=ES)
    with pytest.raises(JoseError):
        verify_embedded(text, algorithms=ES, typ="x")
    with pytest.raises(JoseError):
        peek(text)


@given(data=st.data())
def test_a_mangled_token_is_an_error(data):
    at = data.draw(st.integers(0, len(TOKEN)))
    until = at + data.draw(st.integers(0, 3))
    text = TOKEN[:at] + data.draw(st.text("abcXYZ019-_.=ä", max_size=3)) + TOKEN[until:]
    if text != TOKEN:
        refused(text)


@settings(max_examples=300)
@given(
    header=st.dictionaries(st.sampled_from(["alg", "kid", "jwk", "crit", "typ", "b64", "jku"]), json_values)
)
def test_any_header_is_an_error_or_verified(header):
    token = signed({"alg": "ES256", **header})
    for keys in (PUBLIC, KeySet([PUBLIC])):
        try:
            assert verify(token, keys, algorithms=ES).claims == CLAIMS
        except JoseError:
            pass
    with pytest.raises(JoseError):
        verify_embedded(token, algorithms=ES, typ="dpop+jwt")


# -- signing ---------------------------------------------------------------------------------------


def test_only_a_private_key_signs_and_only_with_its_algorithms():
    for key, algorithm in ((PUBLIC, "ES256"), (KEY, "ES384"), (KEY, "RS256"), (RSA, "ES256")):
        with pytest.raises(JoseError, match="cannot sign"):
            sign({}, key, algorithm=algorithm)
    for algorithm in ("none", "HS256", "", "x"):
        with pytest.raises(ValueError, match="algorithms"):
            sign({}, KEY, algorithm=algorithm)
        with pytest.raises(ValueError, match="algorithms"):
            new_key(algorithm)


def test_what_has_no_json_form_is_not_signed():
    with pytest.raises(TypeError):
        sign({"a": object()}, KEY, algorithm="ES256")


@pytest.mark.parametrize("header", [{"kid": 5}, {"jwk": None}, {"typ": []}])
def test_a_header_that_no_token_has_is_not_signed(header):
    with pytest.raises(JoseError, match="header"):
        sign({}, KEY, algorithm="ES256", header=header)


def test_the_algorithm_of_a_header_is_that_of_the_signature():
    header, claims = peek(sign(CLAIMS, KEY, algorithm="ES256", header={"alg": "none", "kid": "mine"}))
    assert (header["alg"], header["kid"], claims) == ("ES256", "mine", CLAIMS)


# -- a key within the token ------------------------------------------------------------------------


def embedded(jwk, key=KEY, **header):
    return signed({"alg": "ES256", "typ": "dpop+jwt", "jwk": jwk, **header}, key=key)


def test_a_token_may_show_who_holds_the_key_that_is_in_it():
    token = sign(CLAIMS, KEY, algorithm="ES256", header={"typ": "dpop+jwt", "jwk": KEY.public_jwk()})
    found, key = verify_embedded(token, algorithms=ES, typ="dpop+jwt")
    assert (found.claims, key.thumbprint()) == (CLAIMS, KEY.thumbprint())
    assert not key.is_private


@pytest.mark.parametrize(
    "jwk",
    [
        None,
        5,
        {},
        KEY.private_jwk(),
        {**KEY.public_jwk(), "d": ""},
        {**KEY.public_jwk(), "k": "AAAA"},
        {"kty": "oct", "k": "AAAA"},
        OTHER.public_jwk(),
        RSA.public_jwk(),
        {**KEY.public_jwk(), "use": "enc"},
    ],
    ids=itertools.count(),
)
def test_a_key_within_a_token_is_public_and_the_one_that_signed(jwk):
    with pytest.raises(JoseError) as problem:
        verify_embedded(embedded(jwk), algorithms=ES, typ="dpop+jwt")
    assert KEY.private_jwk()["d"] not in str(problem.value)


@pytest.mark.parametrize("header", [{"typ": "JWT"}, {"alg": "none"}, {"alg": "HS256"}, {"crit": ["jwk"]}])
def test_for_a_key_within_a_token_the_same_rules_hold(header):
    with pytest.raises(JoseError):
        verify_embedded(embedded(KEY.public_jwk(), **header), algorithms=ES, typ="dpop+jwt")


# -- claims ----------------------------------------------------------------------------------------

NOW = 1_000_000.0


def times(**claims):
    required = claims.pop("required", True)
    return check_times(claims, now=NOW, skew=30.0, required=required)


@pytest.mark.parametrize("name", ["exp", "nbf"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e16, True])
def test_what_is_no_time_is_refused(name, value):
    with pytest.raises(JoseError, match=f"{name} is no time"):
        check_times({"exp": NOW, name: value}, now=NOW, skew=30.0)


def test_a_token_holds_between_its_times():
    assert times(exp=NOW + 1) == NOW + 1
    assert times(exp=int(NOW) + 1, nbf=NOW) == NOW + 1
    assert times(required=False) is None


def test_tokens_expired_are_refused():
    with pytest.raises(JoseError, match="expired"):
        times(exp=NOW - 30)
    with pytest.raises(JoseError, match="when it expires"):
        times()


def test_tokens_not_yet_valid_are_refused():
    with pytest.raises(JoseError, match="not valid yet"):
        times(exp=NOW + 99, nbf=NOW + 31)


def test_clock_skew_is_allowed_for():
    assert times(exp=NOW - 29.9, nbf=NOW + 30)


@pytest.mark.parametrize("value", ["1", True, None, [], {}, 1e300, -(10**400)])
def test_a_time_is_a_number(value):
    for name in ("exp", "nbf"):
        with pytest.raises(JoseError, match=f"{name} is no time"):
            times(**{"exp": NOW + 1, name: value})


def test_an_audience_is_one_string_or_several():
    assert audience_of({"aud": "a"}) == ("a",)
    assert audience_of({"aud": ["a", "b"]}) == ("a", "b")
    assert audience_of({}) == ()
    for aud in (None, 5, {}, ["a", 5], True):
        with pytest.raises(JoseError, match="audience"):
            audience_of({"aud": aud})


# -- without the library ---------------------------------------------------------------------------


def test_without_joserfc_the_error_says_what_to_install():
    """At the time of use: the module, and the package, are imported without it."""
    code = """
        import sys
        sys.modules["joserfc"] = None
        import mcp_ref
        from mcp_ref.runtime import jose
        for use in (
            jose.require,
            jose.new_key,
            lambda: jose.load_key("-----BEGIN PRIVATE KEY-----"),
            lambda: jose.load_key({"kty": "EC"}),
            lambda: jose.KeySet.of({"keys": [{"kty": "EC"}]}),
        ):
            try:
                use()
            except jose.JoseMissing as problem:
                assert isinstance(problem, ImportError)
                assert not isinstance(problem, jose.JoseError)
                print(problem)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    said = "JSON web tokens need the library joserfc, which is not installed: pip install 'mcp_ref[auth]'\n"
    assert (done.stdout, done.stderr) == (said * 5, "")


def test_the_library_is_not_loaded_before_it_is_needed():
    code = "import sys, mcp_ref, mcp_ref.runtime.jose; print({'joserfc', 'cryptography'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("set()\n", "")
