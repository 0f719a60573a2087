"""runtime/uri/templates: what is a URI template, and what it gives: the examples of RFC 6570."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.runtime.uri.templates import MAX_URI, BadTemplate, Template

pytestmark = pytest.mark.spec("server/resources/uri-template-rfc6570")

VALUES = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "empty_list": [],
}
"""The variables of the RFC's section 3.2; `undef` is not among them."""

EXAMPLES = """
    # 1.2, levels 1 to 3
    {var}  value
    {hello}  Hello%20World%21
    {+var}  value
    {+hello}  Hello%20World!
    {+path}/here  /foo/bar/here
    here?ref={+path}  here?ref=/foo/bar
    X{#var}  X#value
    X{#hello}  X#Hello%20World!
    map?{x,y}  map?1024,768
    {x,hello,y}  1024,Hello%20World%21,768
    {+x,hello,y}  1024,Hello%20World!,768
    {+path,x}/here  /foo/bar,1024/here
    {#x,hello,y}  #1024,Hello%20World!,768
    {#path,x}/here  #/foo/bar,1024/here
    X{.var}  X.value
    X{.x,y}  X.1024.768
    {/var}  /value
    {/var,x}/here  /value/1024/here
    {;x,y}  ;x=1024;y=768
    {;x,y,empty}  ;x=1024;y=768;empty
    {?x,y}  ?x=1024&y=768
    {?x,y,empty}  ?x=1024&y=768&empty=
    ?fixed=yes{&x}  ?fixed=yes&x=1024
    {&x,y,empty}  &x=1024&y=768&empty=
    # 3.2.1, expansion of variables
    {count}  one,two,three
    {count*}  one,two,three
    {/count}  /one,two,three
    {/count*}  /one/two/three
    {;count}  ;count=one,two,three
    {;count*}  ;count=one;count=two;count=three
    {?count}  ?count=one,two,three
    {?count*}  ?count=one&count=two&count=three
    {&count*}  &count=one&count=two&count=three
    # 3.2.2, simple
    {half}  50%25
    O{empty}X  OX
    O{undef}X  OX
    {x,y}  1024,768
    ?{x,empty}  ?1024,
    ?{x,undef}  ?1024
    ?{undef,y}  ?768
    {var:3}  val
    {var:30}  value
    {list}  red,green,blue
    {list*}  red,green,blue
    {keys}  semi,%3B,dot,.,comma,%2C
    {keys*}  semi=%3B,dot=.,comma=%2C
    # 3.2.3, reserved
    {+half}  50%25
    {base}index  http%3A%2F%2Fexample.com%2Fhome%2Findex
    {+base}index  http://example.com/home/index
    O{+empty}X  OX
    O{+undef}X  OX
    up{+path}{var}/here  up/foo/barvalue/here
    {+path:6}/here  /foo/b/here
    {+list}  red,green,blue
    {+list*}  red,green,blue
    {+keys}  semi,;,dot,.,comma,,
    {+keys*}  semi=;,dot=.,comma=,
    # 3.2.4, fragment
    {#var}  #value
    {#half}  #50%25
    foo{#empty}  foo#
    foo{#undef}  foo
    {#path:6}/here  #/foo/b/here
    {#list}  #red,green,blue
    {#list*}  #red,green,blue
    {#keys}  #semi,;,dot,.,comma,,
    {#keys*}  #semi=;,dot=.,comma=,
    # 3.2.5, label
    {.who}  .fred
    {.who,who}  .fred.fred
    {.half,who}  .50%25.fred
    www{.dom*}  www.example.com
    X{.empty}  X.
    X{.undef}  X
    X{.var:3}  X.val
    X{.list}  X.red,green,blue
    X{.list*}  X.red.green.blue
    X{.keys}  X.semi,%3B,dot,.,comma,%2C
    X{.keys*}  X.semi=%3B.dot=..comma=%2C
    X{.empty_keys}  X
    X{.empty_keys*}  X
    # 3.2.6, path segments
    {/who}  /fred
    {/who,who}  /fred/fred
    {/half,who}  /50%25/fred
    {/who,dub}  /fred/me%2Ftoo
    {/var,empty}  /value/
    {/var,undef}  /value
    {/var:1,var}  /v/value
    {/list}  /red,green,blue
    {/list*}  /red/green/blue
    {/list*,path:4}  /red/green/blue/%2Ffoo
    {/keys}  /semi,%3B,dot,.,comma,%2C
    {/keys*}  /semi=%3B/dot=./comma=%2C
    # 3.2.7, path parameters
    {;who}  ;who=fred
    {;half}  ;half=50%25
    {;empty}  ;empty
    {;v,empty,who}  ;v=6;empty;who=fred
    {;v,bar,who}  ;v=6;who=fred
    {;hello:5}  ;hello=Hello
    {;list}  ;list=red,green,blue
    {;list*}  ;list=red;list=green;list=blue
    {;keys}  ;keys=semi,%3B,dot,.,comma,%2C
    {;keys*}  ;semi=%3B;dot=.;comma=%2C
    # 3.2.8, query
    {?who}  ?who=fred
    {?half}  ?half=50%25
    {?x,y,undef}  ?x=1024&y=768
    {?var:3}  ?var=val
    {?list}  ?list=red,green,blue
    {?list*}  ?list=red&list=green&list=blue
    {?keys}  ?keys=semi,%3B,dot,.,comma,%2C
    {?keys*}  ?semi=%3B&dot=.&comma=%2C
    # 3.2.9, query continued
    {&who}  &who=fred
    {&half}  &half=50%25
    {&x,y,undef}  &x=1024&y=768
    {&var:3}  &var=val
    {&list}  &list=red,green,blue
    {&list*}  &list=red&list=green&list=blue
    {&keys}  &keys=semi,%3B,dot,.,comma,%2C
    {&keys*}  &semi=%3B&dot=.&comma=%2C
"""


def examples():
    lines = [line.split() for line in EXAMPLES.splitlines()]
    return [pytest.param(*line, id=line[0]) for line in lines if line and line[0] != "#"]


@pytest.mark.parametrize(("template", "uri"), examples())
def test_the_examples_of_the_rfc_come_out_right(template, uri):
    assert Template(template).expand(VALUES) == uri


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("", {}, ""),
        ("file:///a'b", {}, "file:///a'b"),
        ("é/{x}", {"x": "é"}, "%C3%A9/%C3%A9"),
        ("😀%e9%20", {}, "%F0%9F%98%80%e9%20"),
        ("{x}", {"x": "%41"}, "%2541"),
        ("{+x}", {"x": "%41%4%"}, "%41%254%25"),
        ("{x:2}", {"x": "éüa"}, "%C3%A9%C3%BC"),
        ("{+x:2}", {"x": "%2Fab"}, "%2Fa"),
        ("{a.b_1.%41}", {"a.b_1.%41": "x"}, "x"),
        ("{?%41}", {"%41": "x"}, "?%41=x"),
        ("{?x*}", {"x": {"a&b=c": "d", "e": ""}}, "?a%26b%3Dc=d&e="),
        ("{;x*}", {"x": {"a": ""}}, ";a"),
        ("{;x*}", {"x": ["", "b"]}, ";x;x=b"),
        ("{x*}", {"x": {"a": "", "b": "="}}, "a=,b=%3D"),
        ("{?x,y}", {"y": "1", "z": "no variable of this one"}, "?y=1"),
        ("{x}", {"x": None}, ""),
        ("{x*}", {"x": "text"}, "text"),
    ],
)
def test_what_the_examples_leave_open(template, values, uri):
    assert Template(template).expand(values) == uri


@pytest.mark.parametrize(
    ("template", "value", "error", "said"),
    [
        ("{x}", 5, TypeError, "x: a string, or a list or dict of strings, not 5"),
        ("{x}", True, TypeError, "x: a string"),
        ("{x}", 0, TypeError, "x: a string"),
        ("{x}", b"a", TypeError, "x: a string"),
        ("{x*}", ["a", 5], TypeError, "x: a string"),
        ("{x*}", ["a", None], TypeError, "x: a string"),
        ("{x*}", {"a": 5}, TypeError, "x: a string"),
        ("{x*}", {5: "a"}, TypeError, "x: a string"),
        ("{x:3}", ["a"], ValueError, "x:3 is for strings, not for"),
        ("{x:3}", {"a": "b"}, ValueError, "x:3 is for strings, not for"),
        ("{+x}", "a\ud800", ValueError, "x: half a surrogate pair"),
        ("{x*}", ["\udcff"], ValueError, "x: half a surrogate pair"),
    ],
)
def test_a_value_without_a_place_in_a_uri_is_refused_by_its_name(template, value, error, said):
    with pytest.raises(error, match=said):
        Template(template).expand({"x": value})


def test_a_template_says_its_text_and_its_variables():
    template = Template("x://{a}/{+b}{/a:1,c*}{?d,a}")
    assert template.text == "x://{a}/{+b}{/a:1,c*}{?d,a}"
    assert template.variables == ("a", "b", "c", "d")
    assert repr(template) == "Template('x://{a}/{+b}{/a:1,c*}{?d,a}')"
    assert template.match(template.expand({"a": "1", "b": "2/3"})) == {"a": "1", "b": "2/3"}


@pytest.mark.parametrize(
    "text", ["{" + name + "}" for name in ("x", "x_1", "1", "a.b", "%C3%A9", "_", "x:9999")]
)
def test_names_and_prefixes_may_be_all_that_the_rfc_lets_them_be(text):
    assert Template(text).variables == (text.strip("{}").partition(":")[0],)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a{x", "'a{x', offset 1: this { is never closed"),
        ("{", "offset 0: this { is never closed"),
        ("{x}{y", "offset 3: this { is never closed"),
        ("a}b", "offset 1: this } closes nothing"),
        ("{x}}", "offset 3: this } closes nothing"),
        ("{a{b}}", "offset 1: 'a{b' is no name of a variable"),
        ("a{}", "offset 2: an expression without a variable"),
        ("{+}", "offset 2: '' is no name of a variable"),
        ("{x,}", "offset 3: '' is no name of a variable"),
        ("{,x}", "offset 1: the operator ',' has no meaning yet"),
        ("{x,,y}", "offset 3: '' is no name of a variable"),
        *[(f"{{{sign}x}}", f"offset 1: the operator '{sign}' has no meaning yet") for sign in "=,!@|"],
        ("{$x}", "offset 1: '$x' is no name of a variable"),
        ("{++x}", "offset 2: '+x' is no name of a variable"),
        ("{x-y}", "'x-y' is no name of a variable"),
        ("{x y}", "'x y' is no name of a variable"),
        ("{x }", "'x ' is no name of a variable"),
        ("{é}", "'é' is no name of a variable"),
        ("{a..b}", "'a..b' is no name of a variable"),
        ("{a.}", "'a.' is no name of a variable"),
        ("{..a}", "offset 2: '.a' is no name of a variable"),
        ("{%4}", "'%4' is no name of a variable"),
        ("{x%zz}", "'x%zz' is no name of a variable"),
        ("{?a,b c}", "offset 4: 'b c' is no name of a variable"),
        ("{*}", "'*' is no name of a variable"),
        ("{x:0}", "'x:0': after a name comes * or :1 to :9999, or nothing"),
        ("{x:01}", "'x:01': after a name comes"),
        ("{x:10000}", "'x:10000': after a name comes"),
        ("{x:}", "'x:': after a name comes"),
        ("{x:-1}", "'x:-1': after a name comes"),
        ("{x:a}", "'x:a': after a name comes"),
        ("{x:٣}", "after a name comes"),
        ("{x:3*}", "'x:3*': after a name comes"),
        ("{x*:3}", r"'x*:3': after a name comes"),
        ("{x**}", "'x**': after a name comes"),
        *[(f"a{c}{{x}}", f"offset 1: {c!r} may not stand in a URI") for c in ' "<>\\^`|\n\0\x7f\x80\x9f'],
        ("\ud800", "may not stand in a URI"),
        ("\ufffe", "may not stand in a URI"),
        ("\ufdd0", "may not stand in a URI"),
        ("a%", "offset 1: '%' is no percent-encoding"),
        ("a%4{x}", "offset 1: '%4' is no percent-encoding"),
        ("%zz", "offset 0: '%zz' is no percent-encoding"),
        ("{x}" * 101, "has 101 variables: 100 are the most"),
        ("{" + ",".join("x" * 101) + "}", "has 101 variables: 100 are the most"),
        ("a" * (MAX_URI + 1), "a template of 65537 characters: 65536 are the most"),
    ],
)
def test_what_is_no_template_is_refused_with_the_place(text, said):
    with pytest.raises(BadTemplate) as caught:
        Template(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 600


@given(st.text() | st.text("{}x,y*:1+#./;?&=!%4a é", max_size=20))
def test_whatever_the_text_it_is_a_template_or_refused(text):
    try:
        template = Template(text)
    except BadTemplate:
        return
    assert template.text == text
    template.expand({})
