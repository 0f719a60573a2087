"""runtime/http_server/request: what the head of a request says, and every way in which it can be
wrong.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.runtime.http_server import request as module
from mcp_ref.runtime.http_server.request import CHUNKED, BadRequest, check_field_line, parse_head


def head(*lines, first="POST /mcp HTTP/1.1", host="Host: here"):
    return "\r\n".join(line for line in (first, host, *lines) if line is not None).encode("latin-1")


def environ(*lines, **more):
    return parse_head(head(*lines, **more), {}).environ


def refused(text):
    """The status with which it is refused."""
    with pytest.raises(BadRequest) as caught:
        parse_head(text, {})
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 200
    return int(caught.value.status[:3])


# -- what is right ---------------------------------------------------------------------------------


def test_an_environ_has_what_wsgi_wants_of_a_request():
    said = environ(
        "Content-Type: text/plain",
        "Content-Length: 3",
        "Accept: */*",
        first="POST /a%20b/%C3%A4?x=%31 HTTP/1.1",
    )
    assert said == {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/a b/\xc3\xa4",
        "QUERY_STRING": "x=%31",
        "REQUEST_URI": "/a%20b/%C3%A4?x=%31",
        "RAW_URI": "/a%20b/%C3%A4?x=%31",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "here",
        "CONTENT_TYPE": "text/plain",
        "CONTENT_LENGTH": "3",
        "HTTP_ACCEPT": "*/*",
    }


def test_what_is_in_every_environ_is_in_this_one_and_the_original_is_left_alone():
    base = {"wsgi.version": (1, 0)}
    assert parse_head(head(), base).environ["wsgi.version"] == (1, 0)
    assert base == {"wsgi.version": (1, 0)}


def test_the_names_of_headers_are_the_same_in_every_case():
    for name in ("mcp-session-id", "MCP-SESSION-ID", "mCP-sESSION-iD"):
        assert environ(f"{name}: 1")["HTTP_MCP_SESSION_ID"] == "1"
    for name in ("content-type", "CONTENT-TYPE"):
        assert environ(f"{name}: a/b")["CONTENT_TYPE"] == "a/b"


def test_spaces_and_tabs_around_a_value_are_not_part_of_it():
    assert environ("A: \t b  c \t")["HTTP_A"] == "b  c"
    assert environ("A:")["HTTP_A"] == ""
    assert environ("A:b:c")["HTTP_A"] == "b:c"


def test_a_value_that_is_not_ascii_is_passed_on_as_latin_1():
    assert environ("A: \xe4\xff")["HTTP_A"] == "\xe4\xff"


def test_a_header_that_stands_there_twice_is_one_with_a_comma():
    assert environ("Accept: a", "X: 1", "accept: b", "ACCEPT: c")["HTTP_ACCEPT"] == "a, b, c"
    assert environ("Content-Type: a", "Content-Type: b")["CONTENT_TYPE"] == "a, b"


def test_a_name_with_an_underscore_is_dropped_so_that_it_passes_for_no_other():
    said = environ(
        "Mcp_Session_Id: forged", "Content_Length: 9", "Transfer_Encoding: chunked", "Mcp-Session-Id: mine"
    )
    assert said["HTTP_MCP_SESSION_ID"] == "mine"
    assert {key for key in said if key.startswith(("HTTP_", "CONTENT_"))} == {
        "HTTP_HOST",
        "HTTP_MCP_SESSION_ID",
    }


def test_a_header_of_64_kib_is_taken():
    assert len(environ("A: " + "x" * 65536)["HTTP_A"]) == 65536


def test_names_that_are_kept_do_not_become_too_many():
    for number in range(400):
        assert environ(f"X-Name-{number}: {number}")[f"HTTP_X_NAME_{number}"] == str(number)
    long = "x" * 500
    assert environ(f"{long}: 1")[f"HTTP_{long.upper()}"] == "1"
    assert module._known_key.cache_info().currsize <= 300


def test_a_full_address_has_the_host_that_counts():
    said = environ(first="GET http://there:81/mcp?a HTTP/1.1")
    assert (said["HTTP_HOST"], said["PATH_INFO"], said["QUERY_STRING"]) == ("there:81", "/mcp", "a")
    said = environ(first="GET HTTPS://there?a HTTP/1.1")
    assert (said["HTTP_HOST"], said["PATH_INFO"], said["QUERY_STRING"]) == ("there", "/", "a")


def test_options_may_be_about_the_whole_server():
    assert environ(first="OPTIONS * HTTP/1.1")["PATH_INFO"] == "*"


def test_a_path_with_two_slashes_is_no_host():
    assert environ(first="GET //there/mcp HTTP/1.1")["PATH_INFO"] == "//there/mcp"


def test_any_token_is_a_method():
    assert environ(first="M-SEARCH! / HTTP/1.1")["REQUEST_METHOD"] == "M-SEARCH!"


# -- where a request ends --------------------------------------------------------------------------


def test_the_length_of_the_body_is_known():
    assert parse_head(head(), {}).body_bytes == 0
    assert parse_head(head("Content-Length: 0012"), {}).body_bytes == 12
    assert parse_head(head("Content-Length: 5", "content-length: 5"), {}).body_bytes == 5
    assert parse_head(head("Transfer-Encoding: Chunked"), {}).body_bytes == CHUNKED


@pytest.mark.parametrize("value", ["", "-1", "+1", "1.0", "0x10", "1 2", "1, 1", "1_000", "\xb2", "9" * 19])
def test_a_content_length_that_is_no_number_is_refused(value):
    assert refused(head(f"Content-Length: {value}")) == 400


def test_two_content_lengths_that_differ_are_refused():
    assert refused(head("Content-Length: 5", "Content-Length: 6")) == 400
    assert refused(head("Content-Length: 5", "Content-Length: 05")) == 400


def test_both_lengths_at_once_are_refused():
    assert refused(head("Content-Length: 5", "Transfer-Encoding: chunked")) == 400


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked", ""])
def test_a_coding_other_than_chunked_is_not_known(coding):
    assert refused(head(f"Transfer-Encoding: {coding}")) == 501


def test_transfer_encoding_twice_is_refused():
    assert refused(head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")) == 400
    assert refused(head("Transfer-Encoding: chunked", "transfer-encoding: identity")) == 400


def test_http_1_0_has_no_chunks():
    assert refused(head("Transfer-Encoding: chunked", first="POST / HTTP/1.0")) == 400


# -- what the client wants -------------------------------------------------------------------------


def test_a_client_may_say_that_this_is_its_last_request():
    assert not parse_head(head(), {}).wants_close
    assert not parse_head(head("Connection: keep-alive"), {}).wants_close
    assert parse_head(head("Connection: Close"), {}).wants_close
    assert parse_head(head("Connection: keep-alive", "Connection: x, close"), {}).wants_close


def test_a_request_of_http_1_0_is_the_last_one_whatever_it_says():
    said = parse_head(
        head("Connection: keep-alive", "Expect: 100-continue", first="GET / HTTP/1.0", host=None), {}
    )
    assert (said.is_http_1_0, said.wants_close, said.wants_continue) == (True, True, False)


def test_a_client_may_wait_for_leave_to_go_on_and_for_nothing_else():
    assert parse_head(head("Expect: 100-Continue"), {}).wants_continue
    assert not parse_head(head(), {}).wants_continue
    assert refused(head("Expect: 200-ok")) == 417


# -- what is wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        "",
        "GET",
        "GET /",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/\tHTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /\t HTTP/1.1",
        "GET /\xe4 HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET mcp HTTP/1.1",
        "GET * HTTP/1.1",
        "GET ftp://here/ HTTP/1.1",
        "GET http:///mcp HTTP/1.1",
        "GET http://user@here/mcp HTTP/1.1",
        "CONNECT here:443 HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/11",
        "GET / HTTP/1.1.1",
        "GET / HTTP/\xb2.1",
        "GET / SIP/2.0",
    ],
)
def test_a_request_line_of_garbage_is_refused(first):
    assert refused(head(first=first)) == 400


@pytest.mark.parametrize("version", ["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0"])
def test_another_version_of_http_is_not_spoken(version):
    assert refused(head(first=f"GET / {version}")) == 505


def test_the_preface_of_http_2_is_another_version():
    assert refused(b"PRI * HTTP/2.0") == 505


def test_an_address_that_does_not_end_is_refused():
    assert refused(head(first=f"GET /{'a' * 8192} HTTP/1.1")) == 414


def test_too_many_headers_are_refused():
    assert environ(*["A: b"] * 99)
    assert refused(head(*["A: b"] * 100)) == 431


@pytest.mark.parametrize(
    "lines", [(None,), ("Host: a", "Host: b"), ("Host: a", "host: a"), ("Host: a/b",), ("Host: a b",)]
)
def test_there_is_one_host_and_it_is_one(lines):
    assert refused(head(*lines[1:], host=lines[0])) == 400


def test_http_1_0_may_do_without_a_host():
    assert "HTTP_HOST" not in environ(first="GET / HTTP/1.0", host=None)


@pytest.mark.parametrize(
    "line", ["A", "A b", "", ": b", " A: b", "\tfolded", "A : b", "A\t: b", "A(: b", "\xc4: b", "A@b: c"]
)
def test_a_line_that_is_no_header_is_refused(line):
    assert refused(head("B: c", line)) == 400
    assert refused(head("B: c", line, "D: e")) == 400


def test_a_known_name_without_a_colon_is_refused():
    assert environ("Accept: a")
    assert refused(head("Accept")) == 400


@pytest.mark.parametrize("sign", ["\0", "\r", "\n", "\x0b", "\x1b", "\x7f", "\x01"])
@pytest.mark.parametrize("where", ["A: b{}c", "A{}: b", "A: {}", "A: b{}"])
def test_a_control_character_or_a_bare_line_end_is_refused(sign, where):
    assert refused(head(where.format(sign), "B: c")) == 400


@pytest.mark.parametrize(
    "line", ["A", "", ": b", " A: b", "A : b", "A: b\0", "A: b\x1b", "A\r: b", "A: b\rC: d"]
)
def test_a_line_that_is_to_be_a_trailer_is_checked_like_a_header(line):
    check_field_line(b"A: b, \xfc\tc")
    with pytest.raises(BadRequest) as caught:
        check_field_line(line.encode("latin-1"))
    assert caught.value.status.startswith("400")


def test_a_line_end_without_cr_is_no_line_end():
    assert refused(b"GET / HTTP/1.1\nHost: here") == 400
    assert refused(b"GET / HTTP/1.1\r\nHost: here\nX: y") == 400


def test_what_a_stranger_wrote_is_quoted_short_and_in_ascii():
    with pytest.raises(BadRequest, match=r"'\\xe4x{39}\.\.\.'"):
        parse_head(head("\xe4" + "x" * 1000 + ": b"), {})


@given(st.binary(max_size=200))
def test_whatever_bytes_come_they_are_parsed_or_refused(data):
    try:
        parse_head(data, {})
    except BadRequest as problem:
        assert problem.status[:3] in ("400", "414", "417", "431", "501", "505")


LINES = st.sampled_from(
    [
        b"Host: a",
        b"Content-Length: 5",
        b"Content-Length: 5 ",
        b"content-length:\t5",
        b"Content-Length : 5",
        b"Content_Length: 7",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding:\x0bchunked",
        b"\x00Transfer-Encoding: chunked",
        b"X: a\nTransfer-Encoding: chunked",
        b"X: a\rContent-Length: 9",
        b" Content-Length: 9",
        b"Content-Length: 6",
        b"Transfer-encoding: x",
        b"Content-Length: +5",
        b"Content-Length: 5,5",
    ]
)


@given(st.lists(LINES, max_size=4))
def test_a_request_that_two_readers_could_end_at_different_places_is_refused(lines):
    text = b"\r\n".join((b"POST / HTTP/1.1", b"Host: here", *lines))
    try:
        said = parse_head(text, {})
    except BadRequest:
        return
    clean = {b"Content-Length: 5", b"Content-Length: 5 ", b"content-length:\t5", b"Content_Length: 7"}
    lengths = set(lines) - {b"Content_Length: 7"}
    if said.body_bytes == CHUNKED:
        assert lengths == {b"Transfer-Encoding: chunked"}
    elif said.body_bytes == 6:
        assert lengths == {b"Content-Length: 6"}
    else:
        assert set(lines) <= clean
        assert said.body_bytes == (5 if lengths else 0)
