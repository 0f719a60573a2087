"""basic/index, "General fields": the keys of `_meta`, trace context, identity, icons."""

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import LEGACY, META, MODERN, REVISIONS, RawClient

from mcp_ref import Context, Server, ServerOptions, connect
from mcp_ref.basic.index import general_fields as meta
from mcp_ref.basic.index.general_fields import check_icons, check_meta, is_key, is_reserved
from mcp_ref.schema import Mismatch, checker, definitions, pruner

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# -- keys -------------------------------------------------------------------------------------

GOOD_KEYS = [
    *["a", "A", "7", "name", "two-words", "two_words", "two.words", "a-_.b", "1st", "x" * 500],
    *["com.example/name", "com.example/", "c/n", "a1.b2-c3/d4", "com.ex-ample.sub/n_a-m.e", "A.B/C"],
]
BAD_KEYS = [
    *["", "-a", "a-", "_a", "a_", ".a", "a.", "a b", "a/b/c", "ä", "a\n", "\na", "a:b", "a+b", "naïve"],
    *["/name", "com.example//name", "1com/name", "com.1example/name", "com./name", ".com/name"],
    *["com..example/name", "com-/name", "-com/name", "com_example/name", "com.example/-name"],
    *["com.example/name ", "com.example /name", "com.example/n/m", "com.éxample/name", "com.example/name\n"],
]


@pytest.mark.spec(
    "basic/index/meta-prefix-format",
    "basic/index/meta-label-format",
    "basic/index/meta-name-format",
    "basic/index/meta-name-interior",
)
@pytest.mark.parametrize("key", GOOD_KEYS)
def test_a_good_key_may_be_sent(key):
    assert is_key(key)
    assert check_meta({key: {"any": "value"}}) == {key: {"any": "value"}}


@pytest.mark.spec(
    "basic/index/meta-prefix-format", "basic/index/meta-label-format", "basic/index/meta-name-format"
)
@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_bad_key_is_refused_with_an_example_of_a_good_one(key):
    assert not is_key(key)
    with pytest.raises(ValueError, match=r"is not a key for _meta; write one like com\.example/name"):
        check_meta({key: 1})


@pytest.mark.parametrize("key", [None, 1, b"a", ("a",)])
def test_a_key_is_a_string(key):
    with pytest.raises(ValueError, match="is not a key"):
        check_meta({key: 1})


RESERVED = {
    "by the second label": [
        *["io.modelcontextprotocol/x", "dev.mcp/x", "org.modelcontextprotocol.api/x", "com.mcp.tools/x"],
        *["IO.ModelContextProtocol/x", "io.MCP/x", "io.modelcontextprotocol/"],
    ],
    "by the last label but one": [
        *["modelcontextprotocol.io/x", "mcp.dev/x", "api.modelcontextprotocol.org/x", "tools.mcp.com/x"],
        *["a.b.mcp.c/x", "a.b.c.modelcontextprotocol.d/x"],
    ],
}
NOT_RESERVED = [
    *[
        "com.example.mcp/x",
        "com.example/mcp",
        "mcp/x",
        "modelcontextprotocol/x",
        "com.mcp-tools/x",
        "a.b.c.mcp/x",
    ],
    *["com.example.modelcontextprotocol/x", "mcp", "io.modelcontextprotocols/x", "a.b.mcp.c.d/x"],
]


@pytest.mark.spec("basic/index/meta-reserved-prefix-second-label")
@pytest.mark.parametrize("key", RESERVED["by the second label"])
def test_a_prefix_whose_second_label_is_the_protocols_is_reserved(key):
    assert is_reserved(key)
    with pytest.raises(ValueError, match="is reserved for the protocol; use a prefix of your own"):
        check_meta({key: 1})


@pytest.mark.spec("basic/index/meta-reserved-prefix-trailing")
@pytest.mark.parametrize("key", RESERVED["by the last label but one"])
def test_a_prefix_whose_last_label_but_one_is_the_protocols_is_reserved(key):
    """The rule of 2025-06-18; refused in every revision, so that no key is good here and bad there."""
    assert is_reserved(key)
    with pytest.raises(ValueError, match="reserved"):
        check_meta({key: 1})


@pytest.mark.parametrize("key", NOT_RESERVED)
def test_prefixes_that_only_look_reserved_are_not(key):
    assert not is_reserved(key)
    check_meta({key: 1})


@pytest.mark.parametrize("key", ["io.modelcontextprotocol /x", "io..modelcontextprotocol/x", ""])
def test_what_is_no_key_is_not_reserved_either(key):
    assert not is_reserved(key)


@CALM
@given(st.text(max_size=40) | st.from_regex(r"[a-zA-Z0-9./_-]{1,40}", fullmatch=True))
def test_keys_follow_the_rule_read_word_by_word(key):
    prefix, slash, name = key.rpartition("/")
    labels = prefix.split(".") if slash else []
    by_rule = bool(key)
    for label in labels:
        by_rule &= re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", label) is not None and not label.endswith("-")
    if name:
        by_rule &= re.fullmatch(r"[A-Za-z0-9._-]+", name) is not None
        by_rule &= name[0].isalnum() and name[-1].isalnum()
    assert is_key(key) == by_rule


@pytest.mark.spec("basic/index/meta-reserved-keys")
@pytest.mark.parametrize(
    "key",
    [
        meta.PROTOCOL_VERSION,
        meta.CLIENT_CAPABILITIES,
        meta.CLIENT_INFO,
        meta.LOG_LEVEL,
        meta.SERVER_INFO,
        meta.SUBSCRIPTION_ID,
        "progressToken",
    ],
)
@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
def test_the_protocols_own_keys_are_set_by_the_protocol_alone(key, revision):
    with pytest.raises(ValueError, match=r"reserved|is set by the client itself"):
        check_meta({key: "mine"})
    server = Server("keys")
    server.on_request("vendor/echo")(lambda params: {"meta": params.get("_meta")})
    with connect(server, revision=revision) as client, pytest.raises(ValueError):
        client.request("vendor/echo", {"_meta": {key: "mine"}})


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_key_of_the_authors_own_arrives(revision):
    server = Server("keys")
    server.on_request("vendor/echo")(lambda params: {"meta": params["_meta"]})
    own = {"com.example/trace": {"deep": [1]}, "plain": None}
    with connect(server, revision=revision) as client:
        arrived = client.request("vendor/echo", {"_meta": own})["meta"]
    assert own.items() <= arrived.items()


@pytest.mark.spec("basic/index/meta-reserved-key-no-assumptions")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_receiver_takes_whatever_keys_arrive(revision):
    """Unknown keys, reserved ones too, and keys that break the rules: with any value."""
    odd = {
        "io.modelcontextprotocol/unheardOf": [1, {"a": None}],
        "modelcontextprotocol.io/odd": 1,
        "-not a key-": {},
        "": "",
        "traceparent": 5,
        "progressTokens": {},
        meta.SERVER_INFO: "the client's?",
    }
    server = Server("tolerant")

    @server.on_request("vendor/echo")
    def echo(params, ctx: Context):
        return {"meta": ctx.meta}

    with RawClient(server, revision=revision) as raw:
        arrived = raw.request("vendor/echo", {"_meta": odd})["result"]["meta"]
        assert odd.items() <= arrived.items()


@pytest.mark.spec("basic/index/meta-reserved-key-no-assumptions")
@pytest.mark.parametrize("wrong", [None, 5, "meta", [], [["progressToken", 1]], True])
@pytest.mark.parametrize("revision", LEGACY)
def test_a_meta_that_is_no_object_is_as_good_as_none(revision, wrong):
    with RawClient(Server("tolerant"), revision=revision) as raw:
        assert "result" in raw.request("ping", {"_meta": wrong})


# -- trace context ----------------------------------------------------------------------------

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD_TRACES = [
    ("traceparent", f"00-{TRACE_ID}-{SPAN_ID}-01"),
    ("traceparent", f"cc-{TRACE_ID}-{SPAN_ID}-00"),
    ("tracestate", "congo=t61rcWkgMzE"),
    ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
    ("tracestate", "rojo=1 , \tcongo=2"),
    ("tracestate", "fw529a3039@dt=FfFfFfFf;~,0tenant@sys-tem=a b"),
    ("tracestate", "a=1,,b=2"),
    ("tracestate", ""),
    ("tracestate", ",".join(f"k{n}=v" for n in range(32))),
    ("tracestate", f"k={'v' * 256}"),
    ("baggage", "userId=alice"),
    ("baggage", "userId=alice,serverNode=DF%2028,isProduction=false"),
    ("baggage", "key1=value1;property1;property2, key2 = value2, key3=value3; propertyKey=propertyValue"),
    ("baggage", "k="),
    ("baggage", "equals=a=b=c"),
]
BAD_TRACES = [
    ("traceparent", ""),
    ("traceparent", f"00-{'0' * 32}-{SPAN_ID}-01"),
    ("traceparent", f"00-{TRACE_ID}-{'0' * 16}-01"),
    ("traceparent", f"ff-{TRACE_ID}-{SPAN_ID}-01"),
    ("traceparent", f"00-{TRACE_ID.upper()}-{SPAN_ID}-01"),
    ("traceparent", f"00-{TRACE_ID}-{SPAN_ID}"),
    ("traceparent", f"00-{TRACE_ID}-{SPAN_ID}-01-more"),
    ("traceparent", f"00-{TRACE_ID[1:]}-{SPAN_ID}-01"),
    ("traceparent", f"00-{TRACE_ID}-{SPAN_ID}-01\n"),
    ("traceparent", f" 00-{TRACE_ID}-{SPAN_ID}-01"),
    ("tracestate", "no value"),
    ("tracestate", "Key=1"),
    ("tracestate", "a=b=c"),
    ("tracestate", "a=bc=d"),
    ("tracestate", "=1"),
    ("tracestate", "a="),
    ("tracestate", "a=1 "),
    ("tracestate", "a=1;\n"),
    ("tracestate", "a=ä"),
    ("tracestate", ",".join(f"k{n}=v" for n in range(33))),
    ("tracestate", f"k={'v' * 257}"),
    ("baggage", ""),
    ("baggage", "novalue"),
    ("baggage", "a=b c"),
    ("baggage", 'a="b"'),
    ("baggage", "a=1,"),
    ("baggage", "a b=1"),
    ("baggage", "a=ä"),
    ("baggage", "a=1\n"),
    ("traceparent", None),
    ("tracestate", ["a=1"]),
    ("baggage", {"a": 1}),
    ("baggage", 5),
]


@pytest.mark.spec("basic/index/trace-context-format", "basic/index/trace-keys-unprefixed")
@pytest.mark.parametrize(("key", "value"), GOOD_TRACES)
def test_trace_context_as_w3c_writes_it_may_be_sent_without_a_prefix(key, value):
    assert check_meta({key: value}) == {key: value}


@pytest.mark.spec("basic/index/trace-context-format")
@pytest.mark.parametrize(("key", "value"), BAD_TRACES)
def test_trace_context_that_is_written_otherwise_is_refused(key, value):
    with pytest.raises(ValueError, match=f"{key} must be written as W3C Trace Context says"):
        check_meta({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tracestate", ",    " * 31 + "!"),
        ("tracestate", "a=" + "b" * 250 + "=" * 2),
        ("tracestate", ",".join(["a=" + "b " * 100] * 31) + "\n"),
        ("baggage", "a=b;c=d " * 20_000),
        ("baggage", "a=a=" * 20_000 + ",,"),
        ("baggage", "a= " * 20_000),
    ],
)
def test_no_value_takes_long_to_be_refused(key, value):
    start = time.process_time()
    with pytest.raises(ValueError):
        check_meta({key: value})
    assert time.process_time() - start < 2.0


@pytest.mark.spec("basic/index/trace-keys-unprefixed", "basic/index/trace-context-format")
@pytest.mark.parametrize("revision", REVISIONS)
def test_trace_context_reaches_the_server(revision):
    server = Server("traced")

    @server.tool
    def seen(ctx: Context) -> str:
        return ctx.meta["traceparent"]

    sent = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01", "tracestate": "a=1", "baggage": "b=2"}
    with connect(server, revision=revision) as client:
        assert client.call_tool("seen", meta=sent).text == sent["traceparent"]


# -- missing capabilities ---------------------------------------------------------------------


@pytest.mark.spec("basic/index/missing-capability-error")
def test_a_missing_capability_is_named_with_its_parts_if_it_has_any():
    required = {"elicitation": {"form": {}, "url": {}}, "roots": {}}
    problem = meta.MissingRequiredClientCapability(required)
    said = "this request needs the client capability elicitation.form, elicitation.url, roots"
    assert (str(problem), problem.data) == (said, {"requiredCapabilities": required})


# -- the shapes -------------------------------------------------------------------------------


@pytest.mark.spec("basic/patterns/progress/token-string-or-integer")
@pytest.mark.parametrize("token", [None, 1.5, True, [], {}])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_progress_token_is_a_string_or_an_integer(revision, token):
    server = Server("tokens")
    server.on_request("vendor/x")(lambda params: {})
    with RawClient(server, revision=revision) as raw:
        answer = raw.request("vendor/x", {"_meta": {"progressToken": token}})
        if token is None and revision != MODERN:
            assert "result" in answer  # null is no token
        else:
            assert answer["error"]["code"] == -32602
            assert "progressToken" in answer["error"]["message"]
        for proper in ("one", 1, 0, ""):
            assert "result" in raw.request("vendor/x", {"_meta": {"progressToken": proper}})


FULL = {
    "name": "n",
    "version": "1",
    "title": "N",
    "description": "what it is",
    "icons": [
        {"src": "https://example.com/i.png", "sizes": ["any"], "theme": "dark", "mimeType": "image/png"}
    ],
    "websiteUrl": "https://example.com",
}


@pytest.mark.parametrize(
    ("revision", "members"),
    [
        ("2024-11-05", {"name", "version"}),
        ("2025-03-26", {"name", "version"}),
        ("2025-06-18", {"name", "version", "title"}),
        ("2025-11-25", set(FULL)),
        ("2026-07-28", set(FULL)),
    ],
)
def test_identity_has_the_members_of_its_revision(revision, members):
    assert set(pruner(meta.Implementation, revision)(FULL)) == members
    assert set(definitions(revision)["Implementation"]["properties"]) == members
    checker(meta.Implementation, revision)(FULL)


@pytest.mark.parametrize("wrong", [{}, {"name": "n"}, {"version": "1"}, {"name": 1, "version": "1"}, []])
def test_identity_needs_a_name_and_a_version(wrong):
    with pytest.raises(Mismatch):
        checker(meta.Implementation, MODERN)(wrong)


@pytest.mark.spec("basic/index/icon-src-required", "basic/index/icon-members")
@pytest.mark.parametrize(
    "icon",
    [
        {},
        {"src": None},
        {"src": 5},
        {"mimeType": "image/png"},
        {"src": "x", "theme": "blue"},
        {"src": "x", "sizes": "48x48"},
    ],
)
def test_an_icon_needs_a_source_and_proper_members(icon):
    with pytest.raises(Mismatch):
        checker(meta.Icon, MODERN)(icon)


SMALL = {"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["48x48", "96x96"]}
LARGE = {"src": "https://example.com/i.svg", "sizes": ["any"], "theme": "dark"}


@pytest.mark.spec("basic/index/icon-members", "basic/index/icon-places", "basic/index/icon-several")
@pytest.mark.parametrize("revision", REVISIONS)
def test_servers_tools_prompts_and_resources_have_icons_since_2025_11_25(revision):
    icons = [SMALL, LARGE]
    server = Server("pictured", options=ServerOptions(icons=icons))
    server.add_tool(lambda: "", name="t", icons=icons)
    server.prompt(lambda: "", name="p", icons=icons)
    server.resource("x://r", name="r", icons=icons)(lambda: "")
    server.resource("x://{name}", name="rs", icons=icons)(lambda name: name)
    with connect(server, revision=revision) as client:
        found = [
            client.server_info,
            *client.list_tools(),
            *client.list_prompts(),
            *client.list_resources(),
            *client.list_resource_templates(),
        ]
    expected = icons if revision >= "2025-11-25" else None
    assert [each.get("icons") for each in found] == [expected] * 5


@pytest.mark.spec("basic/index/icon-places", "basic/index/icon-several")
@pytest.mark.parametrize(
    "place", ["Icons", "Implementation", "Tool", "Prompt", "Resource", "ResourceTemplate"]
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_may_have_icons_may_have_any_number_of_them(revision, place):
    shape = definitions(revision).get(place, {}).get("properties", {}).get("icons")
    several = {"type": "array", "items": {"$ref": "#/$defs/Icon"}}
    assert shape == (several if revision >= "2025-11-25" else None)


@pytest.mark.spec("basic/index/icon-src-required")
@pytest.mark.parametrize("source", ["https://example.com/i.png", "http://x/i", "data:image/png;base64,AA=="])
def test_an_icon_comes_from_the_web_or_is_there_in_full(source):
    server = Server("pictured", options=ServerOptions(icons=[{"src": source}]))
    with RawClient(server, revision="2025-11-25") as raw:
        assert raw.request("ping")["result"] == {}
    assert server.info["icons"] == [{"src": source}]


@pytest.mark.spec("basic/index/icon-src-required")
@pytest.mark.parametrize(
    "icon", [{}, {"src": "javascript:alert(1)"}, {"src": "file:///etc/passwd"}, {"src": "i.png"}]
)
def test_an_icon_from_elsewhere_is_refused_where_it_is_written(icon):
    with pytest.raises(ValueError, match=r"http\(s\) or data URI"):
        Server("pictured", options=ServerOptions(icons=[icon]))


@pytest.mark.spec("basic/index/info-not-for-behaviour", "basic/index/info-not-for-security")
@pytest.mark.parametrize("revision", REVISIONS)
def test_who_a_client_says_it_is_changes_nothing(revision):
    server = Server("indifferent")
    server.add_tool(lambda: "served", name="serve")
    answers = []
    for info in ({"name": "one", "version": "1"}, {"name": "admin", "version": "root", "title": "The boss"}):
        with RawClient(server) as raw:
            params = {"name": "serve", "arguments": {}}
            if revision == MODERN:
                params["_meta"] = {**META, meta.CLIENT_INFO: info}
            else:
                opening = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
                raw.request("initialize", opening)
                raw.notify("notifications/initialized")
            answers.append(
                [raw.request("tools/call", params, id=7), raw.request("vendor/none", params, id=8)]
            )
    assert answers[0] == answers[1]


@pytest.mark.parametrize("src", ["https://a/b.png", "http://a/b", "data:image/png;base64,AAAA"])
def test_an_icon_comes_from_the_web_or_is_data(src):
    assert check_icons([{"src": src}]) == [{"src": src}]
