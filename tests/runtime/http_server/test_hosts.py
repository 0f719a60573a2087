"""runtime/http_server/hosts: which hosts and origins a list of a setting means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.runtime.http_server.hosts import Hosts, Origins


def hosts(*patterns):
    return Hosts("allowed_hosts", patterns)


def origins(*patterns):
    return Origins("allowed_origins", patterns)


# ---------------------------------------------------------------------------------- hosts


@pytest.mark.parametrize("pattern", ["example.com", "example.com:*", "EXAMPLE.com."])
@pytest.mark.parametrize("said", ["example.com", "example.com:1", "Example.COM:65535", "example.com.:80"])
def test_a_host_without_a_port_is_meant_at_any(pattern, said):
    assert said in hosts(pattern)


@pytest.mark.parametrize(
    "said",
    [
        "example.org",
        "www.example.com",
        "notexample.com",
        "example.com.evil.org",
        "example.comm",
        "example.com..",
        "xexample.com",
    ],
)
def test_another_name_is_another_host(said):
    assert said not in hosts("example.com")


def test_a_host_with_a_port_is_meant_at_that_port():
    list_ = hosts("example.com:8000")
    assert "example.com:8000" in list_
    assert "example.com:08000" in list_
    assert "example.com:8001" not in list_
    assert "example.com" not in list_


@pytest.mark.parametrize("port", [80, 443])
def test_a_browser_leaves_out_the_port_of_the_scheme(port):
    list_ = hosts(f"example.com:{port}")
    assert "example.com" in list_
    assert "example.com:" in list_
    assert f"example.com:{port}" in list_
    assert "example.com:8080" not in list_


def test_a_star_means_what_is_below_a_name_and_not_the_name():
    list_ = hosts("*.example.com", "*.example.org:8000")
    assert "a.example.com:1" in list_
    assert "a.b.example.com" in list_
    assert "a.example.org:8000" in list_
    for said in ("example.com", ".example.com", "aexample.com", "a.example.com.evil.org", "a.example.org"):
        assert said not in list_


def test_a_star_alone_means_every_host_but_nothing_else():
    assert "anything.at.all:99" in hosts("*")
    assert "two, hosts" not in hosts("*")
    assert "" not in hosts("*")


@pytest.mark.parametrize("said", ["[::1]", "[::1]:8000", "[0:0:0:0:0:0:0:1]", "[0000::0001]:1"])
def test_an_ipv6_address_has_many_spellings(said):
    assert said in hosts("[::1]")


@pytest.mark.parametrize("said", ["::1", "[::2]", "[::1", "[::1%25lo]", "[:::]", "[1.2.3.4]", "[::1]x", "[]"])
def test_what_is_not_that_address_is_not_meant(said):
    assert said not in hosts("[::1]")


@pytest.mark.parametrize(
    "said",
    [
        "",
        ".",
        " localhost",
        "localhost ",
        "localhost\n",
        "localhost:80\n",
        "localhost, localhost",
        "localhost,localhost",
        "localhost:",
        "localhost:80:80",
        "localhost:-1",
        "localhost:+1",
        "localhost:65536",
        "localhost:999999",
        "localhost:٣",
        "localhost/",
        "localhost/@evil.org",
        "localhost@evil.org",
        "evil.org@localhost",
        "localhost#evil.org",
        "localhost?evil.org",
        "localhost\\evil.org",
        "http://localhost",
        "localhost%00",
        "localhost\0",
        "localhost..",
        "..",
        "\u212aocalhost",
        "lo\xadcalhost",
        "locàlhost",
        "a" * 254 + ".b",
        "localhost" * 8192,
        "[" * 65536,
        "1" * 65536,
    ],
)
def test_what_is_not_one_host_is_not_in_any_list(said):
    meant = said == "localhost:"  # RFC 3986 lets a port be empty
    assert (said in hosts("localhost")) is meant
    assert (Hosts.parse(said) is None) is not meant


def test_a_letter_that_only_looks_like_another_is_another():
    assert "\u212a.example" not in hosts("k.example")  # the Kelvin sign, a small k in lower case


@given(st.text(alphabet="aA1.:[]-_*%@/, \n\u212a", max_size=30) | st.text())
def test_any_text_is_a_host_or_none_and_in_its_one_spelling_it_is_the_same(text):
    place = Hosts.parse(text)
    if place is not None:
        again = f"{place.host}:{place.port}" if place.port else place.host
        assert Hosts.parse(again) == place
        assert text in hosts(again)


# -------------------------------------------------------------------------------- origins


def test_an_origin_is_meant_with_its_scheme_and_port():
    list_ = origins("https://example.com", "http://example.org:5173")
    for said in ("https://example.com", "HTTPS://Example.com:443", "http://example.org:5173"):
        assert said in list_
    for said in (
        "http://example.com",
        "https://example.com:8443",
        "https://www.example.com",
        "http://example.org",
        "https://example.org:5173",
        "example.com",
        "wss://example.com",
    ):
        assert said not in list_


def test_an_origin_may_be_meant_at_any_port():
    list_ = origins("http://localhost:*", "https://*.example.com:*", "https://[::1]:*")
    for said in (
        "http://localhost",
        "http://localhost:1",
        "https://a.example.com:8443",
        "https://[::1]",
        "https://[0::1]:5",
    ):
        assert said in list_
    for said in ("https://localhost", "https://example.com:8443", "http://localhost.evil.org:1"):
        assert said not in list_


def test_a_star_below_an_origin_holds_for_the_port_of_the_scheme():
    list_ = origins("https://*.example.com")
    assert "https://a.example.com" in list_
    assert "https://a.b.example.com:443" in list_
    assert "https://a.example.com:444" not in list_
    assert "https://example.com" not in list_
    assert "http://a.example.com" not in list_


def test_a_page_of_nowhere_is_only_meant_by_name_or_with_all():
    assert "null" in origins("null")
    assert "null" in origins("*")
    assert "null" not in origins("https://example.com")
    assert "Null" not in origins("null", "*")
    assert "https://null" not in origins("null")


def test_origins_of_other_schemes_are_meant_by_name():
    list_ = origins("vscode-webview://abc", "file://")
    assert "vscode-webview://abc" in list_
    assert "file://" in list_
    assert "vscode-webview://abcd" not in list_
    assert "vscode-webview://abc:1" not in list_
    assert "file://host" not in list_


@pytest.mark.parametrize(
    "said",
    [
        "",
        "http://",
        "https://",
        "://localhost",
        "http:localhost",
        "http:/localhost",
        "//localhost",
        "http://localhost/",
        "http://localhost/path",
        "http://user@localhost",
        "http://localhost, http://localhost",
        "http://localhost,http://localhost",
        "http://localhost http://localhost",
        "http://localhost\r\nX: y",
        "http://localhost\n",
        " http://localhost",
        "ht\u212ap://localhost",
        "http://localh\xf6st",
        "1http://localhost",
        "http://" + "a" * 65536,
        "a" * 65536 + "://localhost",
    ],
)
def test_what_is_not_one_origin_is_not_in_any_list(said):
    assert Origins.parse(said) is None
    assert said not in origins("*")


@given(st.text(alphabet="http:/s*.1a[]null,@ \n", max_size=30) | st.text())
def test_any_text_is_an_origin_or_none(text):
    place = Origins.parse(text)
    assert (text in origins("*")) is (place is not None)


# ------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "exa mple.com",
        "example.com/",
        "http://example.com",
        "::1",
        "[::1",
        "*.",
        "**",
        "*.*",
        "*.*.example.com",
        "a.*.example.com",
        "a*.example.com",
        "*example.com",
        "example.*",
        "*:8000",
        "*.[::1]",
        "example.com:http",
        "example.com:8000:*",
        "example.com:*:*",
        "example.com:99999",
        "bücher.example",
        None,
        80,
        b"example.com",
    ],
)
def test_a_bad_pattern_for_a_host_is_named(pattern):
    with pytest.raises(ValueError, match="the_setting has ") as refused:
        Hosts("the_setting", ["localhost", pattern])
    assert repr(pattern) in str(refused.value)
    assert "a host:" in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "example.com",
        "localhost:3000",
        "https://example.com/",
        "https://",
        "https://*",
        "https://*.",
        "*://example.com",
        "*.example.com",
        "https://a*.example.com",
        "https://a.*.example.com",
        "https://example.com:443:*",
        "null:*",
        "file://*.",
        "file://:*",
        "NULL",
        None,
    ],
)
def test_a_bad_pattern_for_an_origin_is_named(pattern):
    with pytest.raises(ValueError, match="the_setting has ") as refused:
        Origins("the_setting", [pattern])
    assert repr(pattern) in str(refused.value)
    assert "an origin:" in str(refused.value)


def test_a_huge_bad_pattern_is_named_in_short():
    with pytest.raises(ValueError, match="the_setting has ") as refused:
        Hosts("the_setting", ["ä" * 65536])
    assert len(str(refused.value)) < 300


def test_one_text_is_a_list_of_one():
    assert "example.com" in Hosts("allowed_hosts", "example.com")
    assert "anything" in Hosts("allowed_hosts", "*")


def test_an_empty_list_is_false_and_means_nothing():
    assert not hosts()
    assert "localhost" not in hosts()
    assert hosts("*")
    assert hosts("*.example.com")
    assert origins("null")
