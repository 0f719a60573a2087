"""runtime/uri/template_match: a URI read back gives the values that made it, and always at once."""

import time
import urllib.parse

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcp_ref import Server
from mcp_ref.runtime.uri import template_match
from mcp_ref.runtime.uri.templates import MAX_URI, Expression, Template

pytestmark = pytest.mark.spec("server/resources/uri-template-rfc6570")


def match(template, uri):
    return Template(template).match(uri)


FIT = """
    config://app | config://app | {}
    a/{x} | a/b | x=b
    a/{x} | a/ | x=
    {x} |  | x=
    {+x} |  | x=
    {x}/{y} | a/b | x=a,y=b
    {x}.{y} | a.b.c | x=a.b,y=c
    {x}{y} | ab | x=ab,y=
    {x}-{x} | a-a | x=a
    {x:1}/{x} | a/abc | x=abc
    {x}/{x:1} | abc/a | x=abc
    {x:1}/{x:3}/{x:2} | a/abc/ab | x=abc
    {x:3} | ab | x=ab
    {x,y} | a | x=a
    {x,y} | a,b | x=a,y=b
    {x,y} |  | x=
    {x,y,z} | a,,c | x=a,y=,z=c
    {+x} | /a/b?c#d[e] | x=/a/b?c#d[e]
    a/{+x}/b/{+y} | a/b/b/b/c | x=b/b,y=c
    a/{+x}/{+y} | a/1/2/3 | x=1/2,y=3
    {+x}/{y} | a/b/c | x=a/b,y=c
    {+x,y} | a,b | x=a,y=b
    {+x,y} | a | x=a
    X{#x} | X#a/b | x=a/b
    X{#x} | X# | x=
    X{#x} | X | {}
    {/x} |  | {}
    {/x,y} | /a | x=a
    {/x,y} | /a/b | x=a,y=b
    {/x}{/y} | /a/b | x=a,y=b
    {/x,y}/z | /z | {}
    {/x,y}/z | /z/z | x=z
    {+x}{/y} | a/b/c | x=a/b,y=c
    {.x,y} | .a.b | x=a,y=b
    {x}{.y} | a.tar.gz | x=a.tar,y=gz
    {x}{.y} | a | x=a
    {;x,y} | ;x=1;y=2 | x=1,y=2
    {;x,y} | ;y=2 | y=2
    {;x,y} | ;x;y=2 | x=,y=2
    {;x,xy} | ;xy=5 | xy=5
    {;x}{y} | ;xy | x=,y=y
    {;x}{+y} | ;x= | x=,y==
    {?x,y} | ?x=1&y=2 | x=1,y=2
    {?x,y} | ?y=2 | y=2
    {?x,y} | ?x= | x=
    {?x,y} |  | {}
    {?x,y,z} | ?x=1&z=3 | x=1,z=3
    {?x,y,z} | ?y=2&z=3 | y=2,z=3
    a?b=c{&x,y} | a?b=c&y=2 | y=2
    {+x}{?y} | /a/b?y=1 | x=/a/b,y=1
    {+x}{?y} | /a/b | x=/a/b
    {+x}{?y}{#z} | /a?y=1#z/? | x=/a,y=1,z=z/?
    {+x}{?y}{#z} | /a#z | x=/a,z=z
    {+x}{.e}{;v}{?y} | a;v=1?y=2.5 | x=a,v=1,y=2.5
    {+x}{.e}{?y} | a.b?y=1.5 | x=a,e=b,y=1.5
    {?%41} | ?%41=5 | %41=5
""".splitlines()[1:]


def case(line):
    template, uri, values = line.strip().split(" | ")
    pairs = [] if values == "{}" else [pair.partition("=")[::2] for pair in values.split(",")]
    return pytest.param(template, uri, dict(pairs), id=f"{template} {uri}")


@pytest.mark.parametrize(("template", "uri", "values"), [case(line) for line in FIT])
def test_what_fits_is_read_back(template, uri, values):
    assert match(template, uri) == values
    assert Template(template).expand(match(template, uri)) == uri


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("config://app", "config://app/"),
        ("config://app", "config://ap"),
        ("config://app", "xconfig://app"),
        ("config://app", "CONFIG://app"),
        ("", "a"),
        ("a/{x}", "a/b/c"),
        ("a/{x}", "a"),
        ("a/{x}/c", "a/b/cd"),
        ("{x}", "a:b"),
        ("{x}", "a,b"),
        ("{x}", "a?b"),
        ("{x}", "a#"),
        ("{x}-{x}", "a-b"),
        ("{x:1}/{x}", "b/abc"),
        ("{x}{?x}", "a"),
        ("{x:1}/{x}", "ab/abc"),
        ("{x:2}/{x}", "a/abc"),
        ("{x:3}", "abcd"),
        ("{x}{/x*}", "a/a"),
        ("{x,y}", "a,b,c"),
        ("{/x,y}", "/a/b/c"),
        ("{?x,y}", "?y=2&x=1"),
        ("{?x,y}", "?x=1&z=2"),
        ("{?x,y}", "?x=1&x=2"),
        ("{?x,y}", "?x=1&"),
        ("{?x,y}", "&x=1"),
        ("{?x,y}", "?"),
        ("{?x}", "?x"),
        ("{?x}", "?x=a=b"),
        ("{;x}", ";x="),
        ("{;x}", ";xy"),
        ("{?x*}", "?"),
        ("{?x*}", "?a"),
        ("{?x*}", "?a=b=c"),
        ("{?x*}", "?a=1&a=2"),
        ("{?x*}", "?x=1&y=2&x=3"),
        ("{;x*}", ";a="),
        ("{/x*}", "/a=b/c"),
        ("{/x*}", "/a=b=c"),
        ("{/x*}", "/a=1/a=2"),
        ("{/x*}", "a"),
        ("{x}", "%"),
        ("{x}", "%4"),
        ("{x}", "a%zz"),
        ("{+x}", "%%41"),
        ("{x}", "%ff"),
        ("{x}", "%C3"),
        ("{x}", "%C3/%A9"),
        ("{+x}", "a%A9"),
        ("{+x}", "%C0%AE"),
        ("{+x}", "%ED%A0%80"),
        ("{+x}", "%F4%90%80%80"),
        ("{x}{y}", "%C3%A9%A9"),
        ("{+x}", "é"),
        ("{+x}", "a b"),
        ("{+x}", "a\n"),
        ("{+x}", "a\0"),
        ("{+x}", "\ud800"),
        ("{+x}", "\udc41"),
        ("{+x}", "{x}"),
        ("a%2Fb", "a/b"),
        ("a/b", "a%2Fb"),
        ("ab", "a%62"),
        ("{+x}", "a" * (MAX_URI + 1)),
    ],
)
def test_what_the_template_never_gives_does_not_fit(template, uri):
    assert match(template, uri) is None


@pytest.mark.parametrize(
    ("template", "uri", "value"),
    [
        ("{x}", "a%2Fb", "a/b"),
        ("{x}", "%61%2e", "a."),
        ("{x}", "%c3%a9%C3%BC", "éü"),
        ("{x}", "%F0%9F%98%80", "😀"),
        ("{x}", "%00%7f", "\0\x7f"),
        ("{x}", "%252e%25", "%2e%"),
        ("{+x}", "a/%2F%3f", "a//?"),
        ("{x:2}", "%C3%A9%2F", "é/"),
        ("%C3%a9/{x}", "%c3%A9/a", "a"),
        ("é/{x}", "%C3%A9/a", "a"),
        ("%FF{x}", "%ff%41", "A"),
        ("%2F{x}", "%2f%2f", "/"),
    ],
)
def test_values_come_decoded(template, uri, value):
    assert match(template, uri) == {"x": value}


@pytest.mark.parametrize(
    ("template", "uri", "value"),
    [
        ("{/x*}", "/a/b/c", ["a", "b", "c"]),
        ("{/x*}", "/a", ["a"]),
        ("{/x*}", "/", [""]),
        ("{/x*}", "/a//b", ["a", "", "b"]),
        ("{/x*}", "/k=v/l=", {"k": "v", "l": ""}),
        ("{/x*}", "/k%3D=v%2F", {"k=": "v/"}),
        ("{x*}", "a,b%2C", ["a", "b,"]),
        ("{x*}", "", [""]),
        ("{+x*}", "", [""]),
        ("{+x*}", "a/b,c", ["a/b", "c"]),
        ("{+x*}", "a=b,c", ["a=b", "c"]),
        ("{+x*}", "a=b/,c==", {"a": "b/", "c": "="}),
        ("{+x*}", "a=1,a=2", ["a=1", "a=2"]),
        ("X{#x*}", "X#a,b", ["a", "b"]),
        ("www{.x*}", "www.example.com", ["example", "com"]),
        ("{;x*}", ";x=1;x;x=3", ["1", "", "3"]),
        ("{;x*}", ";a=1;b", {"a": "1", "b": ""}),
        ("{?x*}", "?x=1", ["1"]),
        ("{?x*}", "?x=1&x=", ["1", ""]),
        ("{?x*}", "?a=1&b=2", {"a": "1", "b": "2"}),
        ("{?x*}", "?a=1&x=2", {"a": "1", "x": "2"}),
        ("{?x*}", "?%26=%3D", {"&": "="}),
        ("?f=1{&x*}", "?f=1&a=b", {"a": "b"}),
    ],
)
def test_what_stands_in_several_parts_is_a_list_or_a_dict(template, uri, value):
    assert match(template, uri) == {"x": value}


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("{/x*,y}", "/a/b", {"x": ["a"], "y": "b"}),
        ("{/x*}{.y}", "/a/b.txt", {"x": ["a", "b"], "y": "txt"}),
        ("{?x,y*}", "?x=1&a=2&b=3", {"x": "1", "y": {"a": "2", "b": "3"}}),
        ("{?x,y*}", "?a=2", {"y": {"a": "2"}}),
        ("{/x*}{?y*}", "/a/b?c=d", {"x": ["a", "b"], "y": {"c": "d"}}),
        ("{+x*}{?y}", "a,b?y=1", {"x": ["a", "b"], "y": "1"}),
    ],
)
def test_lists_and_dicts_stand_beside_other_variables(template, uri, values):
    assert match(template, uri) == values


# ------------------------------------------------------------------------ there and back


names = st.sampled_from(["x", "y", "z", "xy", "a.b"])
texts = st.text("ab./=,;&?#é%😀\0", max_size=4) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
dicts = st.dictionaries(texts, texts, min_size=2, max_size=3)


@st.composite
def told_apart(draw):
    """A template with values for it, of which each stands in a place of its own."""
    operators = st.sampled_from(["", ".", "/", ";", "?", "&"])
    free = draw(st.permutations([f"{letter}{number}" for letter in "abc" for number in range(3)]))
    text, values = "x://", {}
    for _ in range(draw(st.integers(0, 3))):
        operator, variables = draw(operators), []
        for _ in range(draw(st.integers(1, 3))):
            name = free.pop()
            variables.append(draw(variable(operator, name, values)))
        text += "{" + operator + ",".join(variables) + "}:"
    if draw(st.booleans()):
        values["end"] = draw(st.text("ab/:?é ,", max_size=6))
        text += "{+end}"
    return text, values


@st.composite
def variable(draw, operator, name, values):
    """A variable as it stands in a template; its value is put among the others."""
    if operator in (";", "?", "&") and draw(st.booleans()):
        return name  # and it has no value
    values[name] = draw(st.text("ab/=,;&?é%", max_size=4) if operator == "." else texts)
    prefix = draw(st.none() | st.integers(4, 9999))
    return f"{name}:{prefix}" if prefix else name


@given(told_apart())
def test_what_was_filled_in_is_read_back(made):
    template, values = made
    assert match(template, Template(template).expand(values)) == values


@given(
    st.sampled_from(["x:{v*}", "x{.v*}", "x{/v*}", "x{;v*}", "x{?v*}", "x?{&v*}", "x{/v*}/:{w}", "x{?w,v*}"]),
    st.lists(texts.map(lambda text: text.replace(".", "")), min_size=1, max_size=4)
    | dicts.map(lambda d: {k.replace(".", "!"): v.replace(".", "!") for k, v in d.items()}),
    texts,
)
def test_lists_and_dicts_that_were_filled_in_are_read_back(template, value, other):
    values = {"v": value} | ({"w": other} if "w" in template else {})
    assert match(template, Template(template).expand(values)) == values


variables = st.builds("{}{}".format, names, st.sampled_from(["", "", "", "*"]))
expressions = st.builds(
    "{{{}{}}}".format,
    st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]),
    st.lists(variables, min_size=1, max_size=3).map(",".join),
)
templates = st.lists(expressions | st.sampled_from(["a", "/", ".", "?", "&x=", "é"]), max_size=4).map("".join)


def is_odd(template):
    """What comes back in other ways, or not: a name twice, two in several parts, {+x} that ends at a `?` or #
    or takes what no {x*} after it can be.
    """
    whole = Template(template)
    found = [part for part in whole.parts if isinstance(part, Expression)]
    written = [variable for part in found for variable in part.variables]
    return (
        len(written) > len(whole.variables)
        or sum(variable.explode for variable in written) > 1
        or (any(p.operator.reserved for p in found) and any(variable.explode for variable in written))
        or (
            any(p.operator.reserved for p in found) and any(p.operator.first in ("?", "#") for p in found[1:])
        )
    )


def test_a_reading_that_comes_to_nothing_is_not_taken_back():
    assert Template("{+x}{/y*}").expand({"x": "/=="}) == "/=="
    assert match("{+x}{/y*}", "/==") is None
    assert match("{+x}{/y*}", "/a/b") == {"x": "/a", "y": ["b"]}


@given(templates, st.dictionaries(names, st.text("ab./=,&?xé", max_size=4)))
def test_whatever_was_filled_in_fits_and_gives_the_same_again(template, values):
    assume(not is_odd(template))
    uri = Template(template).expand(values)
    found = match(template, uri)
    assert found is not None
    again = Template(template).expand(found)
    # {+x} gives / for / and for %2F.
    assert again == uri or (
        set(template) & set("+#") and urllib.parse.unquote(again) == urllib.parse.unquote(uri)
    )


@given(templates, st.text("ab./=,;&?#x", max_size=10) | st.text("aé/", max_size=5).map(urllib.parse.quote))
def test_whatever_fits_is_what_the_template_gives(template, uri):
    found = match(template, uri)
    if found is not None:
        assert Template(template).expand(found) == uri


@given(templates, st.text() | st.text("ab./=,;&?#%4é", max_size=12))
def test_whatever_the_text_it_fits_or_does_not(template, text):
    found = match(template, text)
    assert found is None or set(found) <= set(Template(template).variables)


# ------------------------------------------------------------------------------ in no time


@pytest.mark.parametrize(
    "template",
    [
        "{+a}/{+b}/{+c}/{+d}/{+e}",
        "{+a}{+b}{+c}{+d}{+e}!",
        "{+a}a{+b}a{+c}a{+d}b",
        "{+a}aa{+b}aaa{+c}aaaa!",
        "{a}{b}{c}{d}{e}!",
        "{+a,b,c,d,e}!",
        "{/a*}{/b*}{/c*}!",
        "{/a,b,c,d,e}{/f*}!",
        "{?a*}{&b*}{&c*}!",
        "{;a*,b*,c*}!",
        "{.a,b}{.c,d}{.e}!",
        "{+a:9999}{+b:9999}{+c}!",
        "{#a,b,c}!",
        "{+a}{?b}{&c}{#d}!",
    ],
)
@pytest.mark.parametrize(
    "hostile",
    [
        "/" * MAX_URI,
        "a" * MAX_URI,
        "/a" * (MAX_URI // 2),
        "." * MAX_URI,
        "?" + "a=&" * (MAX_URI // 4),
        ";a" * (MAX_URI // 2),
        "," * MAX_URI,
        "%41" * (MAX_URI // 3),
        "%C3%A9" * (MAX_URI // 6),
        "%" * MAX_URI,
    ],
    ids=lambda uri: uri[:6],
)
def test_no_uri_takes_long(template, hostile):
    made = Template(template)

    def seconds():
        before = time.thread_time()
        made.match(hostile)
        made.match(hostile[:-1] + "!")
        return time.thread_time() - before

    assert min(seconds() for _ in range(3)) < 1  # the best of three: the collector may run in one of them


# -- many URIs, and long ones ---------------------------------------------------------------------


@given(
    st.text(alphabet="ab-?%é\udc80", max_size=40),
    st.text(alphabet="ab-?é", max_size=4),
    st.sampled_from([0, 1, 100]),
)
@settings(deadline=None, max_examples=300)
def test_places_are_where_the_text_stands(text, lead, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template_match, "FEW_PLACES", few)
        patch.setattr(template_match, "characters", lambda uri: uri)
        uri = template_match._Uri(text)
        stands = [at for at in range(len(text) + 1) if text.startswith(lead, at)]
        assert uri.places(lead) == sum(1 << (len(text) - at) for at in stands)


def test_many_long_uris_are_looked_up_quickly():
    """A listen request may bring 10,000: what a template looks for may stand everywhere in each."""
    server = Server("tests")

    @server.resource("x:///{a}-{b}--{c}")
    def three(a: str, b: str, c: str) -> str:
        return a

    @server.resource("y:///{d}{+e}")
    def two(d: str, e: str) -> str:
        return d

    begun = time.process_time()
    for number in range(100):
        server.has_resource("x:///" + "-" * 60_000 + f"{number}")
        server.has_resource("y:///" + "a" * 60_000 + f"{number}")
    assert time.process_time() - begun < 2.0
