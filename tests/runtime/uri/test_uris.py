"""runtime/uri/uris: what is a URI, and what could lead out of a directory."""

import posixpath
import time
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.runtime.uri.uris import MAX_URI, BadUri, check_uri, leads_out, legal_length

GOOD = [
    "file:///home/user/a%20b.txt",
    "https://user:secret@example.org:8080/p;x=1/q?a=b&c=d/e?f#g/h?i",
    "config://app",
    "urn:isbn:0-395-36341-1",
    "mailto:someone@example.org",
    "data:,a%00b",
    "a:",
    "a+b-c.1:x",
    "x://",
    "x://host:",
    "x://[::1]:80/",
    "x://[2001:db8::7]/c=GB?objectClass?one",
    "x://[::ffff:192.0.2.1]",
    "x://user@[v7.a:b]/",
    "x:/?#",
    "x:!$&'()*+,;=:@-._~",
]


@pytest.mark.spec("server/resources/custom-scheme-rfc3986")
@pytest.mark.parametrize("uri", GOOD)
def test_a_uri_is_given_back_as_it_is(uri):
    assert check_uri(uri) is uri


@pytest.mark.spec("server/resources/custom-scheme-rfc3986")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' does not begin with a scheme"),
        ("/a/b", "does not begin with a scheme"),
        ("a/b:c", "does not begin with a scheme"),
        ("1a:b", "does not begin with a scheme"),
        ("my_app:b", "does not begin with a scheme"),
        ("%61:b", "does not begin with a scheme"),
        (":b", "does not begin with a scheme"),
        ("x:a b", "' ' must be percent-encoded in a URI, at offset 3"),
        ("x:é", "'é' must be percent-encoded in a URI, at offset 2"),
        ("x:\ud800", "must be percent-encoded in a URI, at offset 2"),
        ("x:a\n", r"'\n' must be percent-encoded in a URI, at offset 3"),
        ("x:\0", r"'\x00' must be percent-encoded in a URI, at offset 2"),
        ("x:a\\b", "must be percent-encoded in a URI, at offset 3"),
        ("x:{a}", "'{' must be percent-encoded in a URI, at offset 2"),
        ("x:%4", "'%4' is no percent-encoding"),
        ("x:ab%", "'%' is no percent-encoding, which is % and two hexadecimal digits, at offset 4"),
        ("x:%zz", "'%zz' is no percent-encoding"),
        ("x:a[b", "'[' in the path at offset 3"),
        ("x:a?b]", "']' in the query at offset 5"),
        ("x:a#b#c", "'#' in the fragment at offset 5"),
        ("x:#[", "'[' in the fragment at offset 3"),
        ("x://a@b@c/", "'a@b@c' at offset 4 is no host"),
        ("x://host:8o/", "'host:8o' at offset 4 is no host"),
        ("x://::1/", "'::1' at offset 4 is no host"),
        ("x://[::1", "'[::1' at offset 4 is no host"),
        ("x://[::1]a/", "'[::1]a' at offset 4 is no host"),
        ("x://[1.2.3.4]/", "[1.2.3.4] at offset 4 is no address of IPv6"),
        ("x://[::1%251]/", "[::1%251] at offset 4 is no address of IPv6"),
        ("x://[v7]/", "[v7] at offset 4 is no address of IPv6"),
    ],
)
def test_what_is_no_uri_is_refused_with_the_place(text, said):
    with pytest.raises(BadUri) as caught:
        check_uri(text)
    assert said in str(caught.value)


def test_a_uri_has_an_end():
    assert check_uri("x:" + "a" * (MAX_URI - 2))
    with pytest.raises(BadUri, match="a URI of 1048576 characters: 65536 are the most"):
        check_uri("x:" + "a" * (2**20 - 2))


@given(st.text() | st.text("x:/?#[]@%4a1.v ", max_size=30).map("x:".__add__))
def test_whatever_the_text_it_is_a_uri_or_refused(text):
    try:
        assert check_uri(text) == text
    except BadUri as problem:
        assert len(str(problem)) < 400
    else:
        assert urllib.parse.urlsplit(text).scheme == text.partition(":")[0].lower()


@given(st.text("ab%4é ", max_size=20))
def test_the_legal_length_is_where_the_first_bad_character_stands(text):
    length = legal_length(text)
    assert legal_length(text[:length]) == length
    assert length == len(text) or not any(legal_length(text[: length + more]) > length for more in (1, 2, 3))


# ---------------------------------------------------------------------------- ways out

OUT = [
    "..",
    "../a",
    "a/..",
    "a/../b",
    "a\\..\\b",
    "a/..\\b",
    ".. /a",
    "/etc/passwd",
    "/",
    "\\\\server\\share",
    "C:\\a",
    "c:/a",
    "C:a",
    "z:",
    "a:b",
    "a\0b",
    "\0",
    "%00",
    "%2e%2e",
    "%2E./a",
    "%252e%252e%252fa",
    "a%2f..%2fb",
    "a%5c..%5cb",
    "%2fetc",
    "%5c%5cserver",
    "%43:a",
    "C%3Aa",
    "%25252e%25252e",
    "..%2500",
    "%%32e%2e/",
]
IN = [
    "",
    ".",
    "a",
    "a/b.txt",
    "./a",
    "a..b",
    "..a",
    "a..",
    "...",
    "a/...b/c",
    "é/ü",
    "ab:c",
    "1:2",
    "100%",
    "100%25",
    "%zz",
    "a%20b",
    "%ff",
    "a/",
    "~",
]


@pytest.mark.parametrize("value", OUT)
def test_a_value_that_could_name_something_outside_leads_out(value):
    assert leads_out(value)


@pytest.mark.parametrize("value", IN)
def test_any_other_value_stays_inside(value):
    assert not leads_out(value)


@pytest.mark.parametrize("times", range(1, 12))
def test_a_way_out_is_found_however_often_it_is_encoded(times):
    value = "%2e%2e"
    for _ in range(times):
        value = value.replace("%", "%25")
    assert leads_out(value)


def test_a_value_that_is_encoded_forever_is_not_decoded_forever():
    before = time.thread_time()
    assert leads_out("%" + "25" * 30_000)
    assert time.thread_time() - before < 1


@given(st.lists(st.sampled_from(["a", "..", ".", "/", "\\", "%2e", "%2f", "%25"]), max_size=8).map("".join))
def test_what_stays_inside_stays_below_the_directory(value):
    if not leads_out(value):
        for _ in range(4):
            path = posixpath.normpath("/root/" + value.replace("\\", "/"))
            assert path == "/root" or path.startswith("/root/")
            value = urllib.parse.unquote(value)
