"""Which sessions are refused: those that can do more than would be done here."""

import functools
import ssl

import pytest
import requests
from http_exchanges import ask, ok
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry
from web import web

from mcp_ref import ClientOptions, connect
from mcp_ref.runtime.http_client.session_rules import check_session, is_plain

pytestmark = pytest.mark.usefixtures("own_environment")


def mounted(adapter, prefix="http://"):
    """A session with an adapter."""
    session = requests.Session()
    session.mount(prefix, adapter)
    return session


def refusal(session):
    """What `connect` has against a session."""
    with session, pytest.raises(ValueError) as refused:
        connect("http://127.0.0.1:1/mcp", options=ClientOptions(session=session))
    return str(refused.value)


class Sends(HTTPAdapter):
    def send(self, request, **options):
        return super().send(request, **options)


class Signs(Sends):
    def add_headers(self, request, **options):
        request.headers["X-Signature"] = "1"


class Other(requests.adapters.BaseAdapter):
    def send(self, *args, **options):
        raise NotImplementedError

    def close(self):
        pass


class Builds(HTTPAdapter):
    def build_response(self, req, resp):
        return super().build_response(req, resp)


@pytest.mark.parametrize(
    ("adapter", "named"),
    [
        (Sends(), "a Sends, has its own send,"),
        (Signs(), "a Signs, has its own add_headers, send,"),
        (Builds(), "a Builds, has its own build_response,"),
        (Other(), "a Other, has its own send,"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_adapter_that_sends_in_its_own_way_is_refused(adapter, named):
    said = refusal(mounted(adapter))
    assert said.startswith(f"the adapter of the session, {named}")
    assert "headers=..." in said
    assert "retry=Retry(5)" in said


def test_a_method_that_was_set_on_the_object_is_seen_too():
    adapter = HTTPAdapter()
    adapter.add_headers = lambda request, **options: None
    assert "has its own add_headers" in refusal(mounted(adapter))
    session = requests.Session()
    session.send = lambda request, **options: None
    assert "the session, a Session, has its own send" in refusal(session)


def test_who_only_meant_a_limit_of_time_is_told_how_to_set_one():
    session = requests.Session()
    session.request = functools.partial(session.request, timeout=10)
    assert refusal(session).endswith("with timeout=...")


class Connects(HTTPAdapter):
    """It has a say in connections only, and is told of what happens."""

    def __init__(self):
        self.called = set()
        super().__init__()

    def init_poolmanager(self, *args, **options):
        self.called.add("init_poolmanager")
        super().init_poolmanager(*args, **options)

    def get_connection_with_tls_context(self, *args, **options):
        self.called.add("get_connection_with_tls_context")
        return super().get_connection_with_tls_context(*args, **options)

    def build_connection_pool_key_attributes(self, *args, **options):
        self.called.add("build_connection_pool_key_attributes")
        return super().build_connection_pool_key_attributes(*args, **options)

    def proxy_manager_for(self, *args, **options):
        self.called.add("proxy_manager_for")
        return super().proxy_manager_for(*args, **options)

    def proxy_headers(self, proxy):
        return {"X-For-The-Proxy": "1"}

    def cert_verify(self, *args):
        self.called.add("cert_verify")
        super().cert_verify(*args)

    def request_url(self, request, proxies):
        return super().request_url(request, proxies) + "?by=adapter"


def test_what_an_adapter_says_of_connections_counts(at):
    adapter = Connects()
    session = mounted(adapter)
    with web(ok) as proxy, session:
        session.proxies["http"] = f"http://127.0.0.1:{proxy.port}"
        http = at("http://example.invalid/mcp", session=session)
        assert ask(http) == (200, b"{}")
        assert proxy.requests[0].target == "http://example.invalid/mcp?by=adapter"
        assert proxy.requests[0].headers["x-for-the-proxy"] == "1"
        assert http.settings.target_of("/other") == "http://example.invalid/other?by=adapter"
    assert adapter.called >= {
        *("init_poolmanager", "get_connection_with_tls_context", "build_connection_pool_key_attributes"),
        *("proxy_manager_for", "cert_verify"),
    }


def test_hooks_are_refused():
    session = requests.Session()
    session.hooks["response"].append(lambda response, **options: None)
    assert "the session has hooks" in refusal(session)


def test_params_are_refused():
    session = requests.Session()
    session.params = {"tenant": "a"}
    assert "the session has params" in refusal(session)


@pytest.mark.parametrize("name", ["request", "send", "prepare_request", "post", "rebuild_auth"])
def test_a_session_that_sends_in_its_own_way_is_refused(name):
    kind = type("Mine", (requests.Session,), {name: lambda self, *args, **options: None})
    said = refusal(kind())
    assert said.startswith(f"the session, a Mine, has its own {name}, and that would not be called here")
    assert "auth=..." in said


class Sets(requests.Session):
    """It says only what could be set."""

    def __init__(self):
        super().__init__()
        self.headers["X-Tenant"] = "7"

    def merge_environment_settings(self, *args):
        return super().merge_environment_settings(*args)

    def get_adapter(self, url):
        return super().get_adapter(url)


def test_a_session_that_only_sets_things_is_used(at):
    with web(ok) as site, Sets() as session:
        assert ask(at(site, session=session)) == (200, b"{}")
        assert site.requests[0].headers["x-tenant"] == "7"


def test_requests_itself_may_be_replaced_by_what_traces_it(monkeypatch):
    """As OpenTelemetry does: that is no session of its own."""
    monkeypatch.setattr(requests.Session, "send", lambda self, *args, **options: None)
    monkeypatch.setattr(HTTPAdapter, "send", lambda self, *args, **options: None)
    with requests.Session() as session:
        check_session(session, session.get_adapter("http://x/"))


@pytest.mark.parametrize(
    "retry",
    [3, Retry(total=None), Retry(total=None, connect=2, read=0, status=0, other=0), Retry(5, status=0)],
    ids=repr,
)
def test_a_session_whose_adapter_retries_is_refused_with_what_to_do_instead(retry):
    """What was sent again could be done twice."""
    said = refusal(mounted(HTTPAdapter(max_retries=retry)))
    assert said.startswith("the adapter of the session retries (max_retries=Retry(")
    assert "mount HTTPAdapter() without max_retries" in said


@pytest.mark.parametrize(
    "retry",
    [0, False, Retry(0, read=False), Retry(False), Retry(total=0, connect=3), Retry(redirect=3, total=0)],
)
def test_a_session_whose_adapter_does_not_retry_is_used(at, retry):
    with web(ok) as site, mounted(HTTPAdapter(max_retries=retry)) as session:
        assert ask(at(site, session=session)) == (200, b"{}")


def test_an_adapter_for_another_server_may_do_what_it_likes(at):
    with web(ok) as site, mounted(Sends(max_retries=3), "http://elsewhere.invalid/") as session:
        assert ask(at(site, session=session)) == (200, b"{}")


def test_an_adapter_whose_connections_were_set_up_is_not_replaced():
    """Its TLS would be lost."""
    assert is_plain(HTTPAdapter(pool_maxsize=3, pool_block=True))
    adapter = HTTPAdapter()
    adapter.init_poolmanager(1, 1, ssl_context=ssl.create_default_context())
    assert not is_plain(adapter)
    adapter = HTTPAdapter()
    adapter.cert_verify = lambda *args: None
    assert not is_plain(adapter)
    assert not is_plain(Connects())
