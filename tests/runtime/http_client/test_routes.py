"""The proxy and the certificates, and what is said of those that cannot be."""

import pytest
import requests
from http_exchanges import ask, ok
from requests.adapters import HTTPAdapter
from web import web

from mcp_ref import McpError, connect
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.http_client.routes import Route

pytestmark = pytest.mark.usefixtures("own_environment")

PROXIES = [
    ("http://", "it is no http: or socks: URL"),
    ("://", "it is no http: or socks: URL"),
    ("/", "it is no http: or socks: URL"),
    ("//", "it is no http: or socks: URL"),
    ("http:///me:secret@x", "it is no http: or socks: URL"),
    ("http://me:secret@", "it is no http: or socks: URL"),
    ("http://me:secret@:3128", "it is no http: or socks: URL"),
    ("http://me:secret/x@y:1", "it is no http: or socks: URL"),
    ("ftp://me:secret@x", "it is no http: or socks: URL"),
    ("http://me:secret@[x", "it is no http: or socks: URL"),
    ("me:secret@x:99999", "it is no http: or socks: URL"),
    ("socks9://me:secret@x:1", "socks"),
    ("https://me:secret@x:1", "not by https:"),
    ("HTTPS://me:secret@x:1", "not by https:"),
]


@pytest.mark.parametrize(("proxy", "said"), PROXIES)
@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
def test_a_proxy_of_the_environment_that_cannot_be_is_named_with_its_variable(
    monkeypatch, variable, proxy, said
):
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(
        LocalError, match=f"^{variable} names a proxy that cannot be used, .*{said}"
    ) as refused:
        connect("http://10.255.255.1/mcp")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("proxy", "said"), PROXIES)
def test_a_proxy_of_the_session_that_cannot_be_is_an_error_of_its_author(at, proxy, said):
    with requests.Session() as session:
        session.proxies["http"] = proxy
        with pytest.raises(ValueError, match=f"^session.proxies names a proxy .*{said}") as refused:
            at("http://10.255.255.1/mcp", session=session)
    assert "secret" not in str(refused.value)
    assert not isinstance(refused.value, McpError)


def test_the_variable_is_not_blamed_where_the_session_trusts_none(at, monkeypatch):
    monkeypatch.setenv("http_proxy", "ftp://x")
    with requests.Session() as session:
        session.trust_env = False
        session.proxies["http"] = "ftp://x"
        with pytest.raises(ValueError, match=r"session\.proxies"):
            at("http://10.255.255.1/mcp", session=session)


def test_socks_without_its_library_is_told_with_what_to_install(monkeypatch):
    def missing(*args, **options):
        raise requests.exceptions.InvalidSchema("Missing dependencies for SOCKS support.")

    monkeypatch.setattr(requests.adapters, "SOCKSProxyManager", missing)
    monkeypatch.setenv("http_proxy", "socks5://me:secret@127.0.0.1:1")
    with pytest.raises(LocalError, match=r"'127\.0\.0\.1:1': .*pip install 'requests\[socks\]'"):
        connect("http://10.255.255.1/mcp")


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_bundle_of_the_environment_that_is_not_there_is_named_with_its_variable(monkeypatch, variable):
    for other in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(variable, "/no/such/file")
    with pytest.raises(LocalError, match=f"^{variable}: .*/no/such/file"):
        connect("https://127.0.0.1:1/mcp")


@pytest.mark.parametrize("setting", ["verify", "cert"])
@pytest.mark.parametrize("verifies", [True, False])
def test_a_file_of_the_session_that_is_not_there_is_named_with_its_setting(at, setting, verifies):
    with requests.Session() as session:
        session.verify = verifies
        setattr(session, setting, "/no/such/file")
        with pytest.raises(LocalError, match=rf"^session\.{setting}: .*/no/such/file"):
            at("https://127.0.0.1:1/mcp", session=session)


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        ("http://127.0.0.1:3128", "127.0.0.1:3128"),
        ("http://me:p@ss@proxy.example:1/", "proxy.example:1"),
        ("me:pw@proxy.example", "proxy.example"),
        ("http:proxy.example:1", "http:proxy.example:1"),
        ("http://proxy.example:1/?token=secret", "proxy.example:1"),
        ("http://proxy.example:1?token=secret", "proxy.example:1"),
        ("http://proxy.example:1#secret", "proxy.example:1"),
        ("http://proxy.example:1/?token=a@secret", "..."),
        ("http://me:1/secret@proxy.example", "..."),
        ("http://me:1\\secret@proxy.example", "..."),
        ("", ""),
    ],
)
def test_a_proxy_is_shown_by_host_and_port(proxy, shown):
    with requests.Session() as session:
        session.proxies["http"] = proxy
        assert Route(session, "http://server.example/").proxy == shown


@pytest.mark.parametrize("with_cert", [True, False])
def test_a_route_has_the_certificate_of_the_client_unless_it_is_to_stay_here(tmp_path, with_cert):
    mine = tmp_path / "mine.pem"
    mine.write_text("")
    with requests.Session() as session:
        session.cert = str(mine)
        adapter, asked = HTTPAdapter(), requests.Request("GET", "https://server.example/").prepare()
        pool = Route(session, asked.url, with_cert=with_cert).pool(adapter, asked)
        assert pool.cert_file == (str(mine) if with_cert else None)


def test_a_fault_of_an_adapter_is_its_own_where_there_is_no_proxy(at):
    class Broken(HTTPAdapter):
        def get_connection_with_tls_context(self, *args, **options):
            raise ValueError("no connections today")

    with requests.Session() as session:
        session.mount("http://", Broken())
        with pytest.raises(ValueError, match="no connections today"):
            at("http://server.example/", session=session)


def test_a_good_route_is_taken(at, monkeypatch):
    with web(ok) as proxy:
        monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{proxy.port}")
        assert ask(at("http://server.example/")) == (200, b"{}")
