"""JSON texts, good and bad, and values at random, for tests of what reads and writes them."""

from hypothesis import strategies as st

from mcp_ref.runtime.json_text import MAX_JSON_LEVELS


def nested(kind, depth):
    """So many levels: of arrays, of objects, or of both in turns."""
    pairs = {"arrays": [("[", "]")], "objects": [('{"a":', "}")], "mixed": [("[", "]"), ('{"a":', "}")]}[kind]
    opening = "".join(pairs[level % len(pairs)][0] for level in range(depth))
    closing = "".join(pairs[level % len(pairs)][1] for level in reversed(range(depth)))
    return f"{opening}1{closing}".encode()


BAD_JSON = {
    "not UTF-8: a stray byte": b'{"a":"\xff"}',
    "not UTF-8: Latin-1": '{"a":"ä"}'.encode("latin-1"),
    "not UTF-8: an overlong form": b'{"a":"\xc0\xaf"}',
    "not UTF-8: a surrogate": b'{"a":"\xed\xa0\x80"}',
    "not UTF-8: beyond Unicode": b'{"a":"\xf4\x90\x80\x80"}',
    "not UTF-8: a character cut off": '{"a":"ä"}'.encode()[:7],
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-32": '{"a":1}'.encode("utf-32"),
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "empty": b"",
    "blanks only": b" \t ",
    "cut off in an object": b'{"jsonrpc":"2.0","id":1,',
    "cut off in a string": b'{"jsonrpc":"2.',
    "cut off in a word": b'{"a":tru',
    "cut off in a number": b'{"a":1.',
    "cut off in an escape": b'{"a":"\\u12',
    "two values": b"{} {}",
    "something after the end": b'{"a":1}x',
    "a comma too many": b'{"a":1,}',
    "a comma too few": b"[1 2]",
    "single quotes": b"{'a':1}",
    "no quotes": b"{a:1}",
    "a comment": b'{"a":1/*one*/}',
    "a key that is a number": b'{1:"a"}',
    "10,000 arrays": nested("arrays", 10_000),
    "10,000 objects": nested("objects", 10_000),
    "10,000 arrays and objects": nested("mixed", 10_000),
    "10,000 arrays that nobody closes": b"[" * 10_000,
    "10,000 objects that nobody closes": b'{"a":' * 10_000,
    "arrays one level too deep": nested("arrays", MAX_JSON_LEVELS + 1),
    "objects one level too deep": nested("objects", MAX_JSON_LEVELS + 1),
    "arrays and objects one level too deep": nested("mixed", MAX_JSON_LEVELS + 1),
    "too deep, in a wide message": b'{"wide":[' + b"[]," * 500 + b'0],"deep":' + nested("mixed", 250) + b"}",
    "a number beyond float": b'{"a":1e400}',
    "a negative number beyond float": b'{"a":-1e400}',
    "a long number beyond float": b'{"a":' + b"9" * 400 + b".5}",
    "an integer of more digits than Python reads": b'{"a":' + b"1" * 5000 + b"}",
    "a negative integer of more digits than Python reads": b'{"a":-' + b"1" * 5000 + b"}",
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "-Infinity": b'{"a":-Infinity}',
    "hexadecimal": b'{"a":0x10}',
    "a leading zero": b'{"a":01}',
    "a leading plus": b'{"a":+1}',
    "a point without digits": b'{"a":1.}',
    "digits of another script": '{"a":٣}'.encode(),
    "duplicate keys": b'{"a":1,"a":1}',
    "duplicate keys, nested": b'{"x":[{"y":{"a":1,"b":2,"a":3}}]}',
    "duplicate keys, one of them escaped": b'{"a":1,"\\u0061":2}',
    "duplicate keys, escaped differently": b'{"\\u00e9":1,"\\u00E9":2}',
    "duplicate keys, both empty": b'{"":1,"":2}',
    "a duplicate id": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    "a lone high surrogate": b'{"a":"\\ud83d"}',
    "a lone low surrogate": b'{"a":"\\ude00"}',
    "a surrogate pair the wrong way round": b'{"a":"\\ude00\\ud83d"}',
    "a high surrogate and a letter": b'{"a":"\\uD83Dx"}',
    "a high surrogate twice": b'{"a":"\\ud83d\\ud83d\\ude00"}',
    "a lone surrogate in a key": b'{"\\udfff":1}',
    "a lone surrogate deep down": b'[[[{"a":["\\udbff"]}]]]',
    "NUL alone": b"\x00",
    "NUL in a string": b'{"a":"\x00"}',
    "NUL after the value": b'{"a":1}\x00',
    "a tab in a string": b'{"a":"\t"}',
    "a newline in a string": b'{"a":"\n"}',
    "an escape that is none": b'{"a":"\\x41"}',
    "a word": b"hello",
    "a word of Python": b'{"a":None}',
    "HTTP": b"GET / HTTP/1.1",
    "a header of another framing": b"Content-Length: 17",
}


def json_values():
    text = st.text(st.characters(exclude_categories=["Cs"]))
    scalars = (
        st.none() | st.booleans() | st.integers() | text | st.floats(allow_nan=False, allow_infinity=False)
    )
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5)
    )


def types_of(value):
    if isinstance(value, dict):
        return {key: types_of(member) for key, member in value.items()}
    return [types_of(member) for member in value] if isinstance(value, list) else type(value)
