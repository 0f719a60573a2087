"""basic/index/json_schema_usage: schemas that others wrote, each by its dialect, none at any price."""

import itertools
import json
import socket
import threading
import time
import tracemalloc
import types

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import json_values
from peers import PATIENCE

from mcp_ref.basic.index import json_schema_usage as validators
from mcp_ref.basic.index.json_schema_usage import DIALECTS, BadSchema, Validator, validator
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.typing import budget
from mcp_ref.runtime.typing.mismatch import Mismatch

NEWEST = "https://json-schema.org/draft/2020-12/schema"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Nothing in this file may reach out."""

    def connect(*args):
        raise AssertionError(f"a socket was to be connected: {args}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)


def refused(schema):
    with pytest.raises(BadSchema) as caught:
        validator(schema)
    return str(caught.value)


def told(schema, value):
    with pytest.raises(Mismatch) as caught:
        validator(schema).check(value)
    return str(caught.value)


def accepts(schema, value):
    try:
        validator(schema).check(value)
    except Mismatch:
        return False
    return True


# ------------------------------------------------------------------------------- dialects


@pytest.mark.spec(
    "basic/index/schema-2020-12-default",
    "basic/index/schema-2020-12-supported",
    "basic/index/schema-2020-12-without-dollar-schema",
)
def test_without_a_dialect_a_schema_is_2020_12():
    """`prefixItems` came with 2020-12; older dialects know nothing of it."""
    schema = {"prefixItems": [{"type": "integer"}]}
    assert not accepts(schema, ["x"])
    assert not accepts({"$schema": NEWEST, **schema}, ["x"])
    assert accepts({"$schema": "https://json-schema.org/draft/2019-09/schema", **schema}, ["x"])


# A schema in the dialect's own words, a value it takes and one it refuses; and whether the next
# dialect understands the same words.
IN_EACH = {
    "https://json-schema.org/draft/2020-12/schema": ({"prefixItems": [{"type": "null"}]}, [None], [1]),
    "https://json-schema.org/draft/2019-09/schema": (
        {"items": [{"type": "null"}], "dependentRequired": {"a": ["b"]}},
        [None],
        [1],
    ),
    "http://json-schema.org/draft-07/schema": ({"if": {"const": 1}, "then": False}, 2, 1),
    "http://json-schema.org/draft-06/schema": ({"exclusiveMinimum": 3}, 4, 3),
    "http://json-schema.org/draft-04/schema": ({"minimum": 3, "exclusiveMinimum": True}, 4, 3),
    "http://json-schema.org/draft-03/schema": ({"properties": {"a": {"required": True}}}, {"a": 1}, {}),
}


@pytest.mark.spec("basic/index/schema-explicit-dialect", "basic/index/schema-validate-by-dialect")
@pytest.mark.parametrize("end", ["", "#"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_is_honoured_with_and_without_a_number_sign(dialect, end):
    words, good, bad = IN_EACH[dialect]
    schema = {"$schema": dialect + end, **words}
    assert accepts(schema, good)
    assert not accepts(schema, bad)


def test_every_dialect_that_jsonschema_knows_is_supported():
    known = {jsonschema.validators.validator_for({"$schema": uri}, default=None) for uri in DIALECTS}
    assert None not in known
    assert len(known) == len(DIALECTS) == len(jsonschema.validators._META_SCHEMAS)


@pytest.mark.spec("basic/index/schema-unsupported-dialect-error")
@pytest.mark.parametrize(
    "named",
    [
        "https://json-schema.org/draft/2099-01/schema",
        "https://json-schema.org/draft-07/schema",
        "http://json-schema.org/schema",
        "https://example.com/own-dialect",
        "",
        "#",
        7,
        None,
        {},
    ],
)
def test_an_unsupported_dialect_is_refused_by_name(named):
    said = refused({"$schema": named, "type": "object"})
    assert said.startswith(f"unsupported dialect {named!r}; supported: ")
    assert NEWEST in said


# ------------------------------------------------------------------------------- validity


@pytest.mark.spec("basic/index/schema-valid")
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "objekt"}, "not a valid schema at /type: 'objekt' is not valid"),
        ({"properties": {"a": {"minimum": "3"}}}, "at /properties/a/minimum: '3' is not of type 'number'"),
        ({"required": "a"}, "at /required"),
        ({"properties": []}, "at /properties"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 3}, "at /exclusiveM"),
        (
            {"pattern": "("},
            "the pattern at /pattern is invalid, or its dialect is not supported: '(': missing )",
        ),
        ({"patternProperties": {"[": {}}}, "at /patternProperties is invalid, or its dialect is"),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "patternProperties": {"[": {}}},
            "the pattern at patternProperties is invalid, or its dialect is not supported: '[': unterminated",
        ),
        (
            {"properties": {"a": {"pattern": r"^\p{Script=Greek}+$"}}},
            "the pattern at /properties/a/pattern is invalid, or its dialect is not supported: "
            r"'^\\p{Script=Greek}+$': the property \p{Script=Greek} is not supported",
        ),
    ],
)
def test_an_invalid_schema_is_refused_with_the_place(schema, said):
    assert said in refused(schema)


@pytest.mark.parametrize("schema", [None, 5, "object", [], [{}]])
def test_what_is_no_schema_at_all(schema):
    assert refused(schema).startswith("a schema is an object, not ")


@pytest.mark.parametrize("schema", [{"a": {1, 2}}, {"a": object()}, {"const": b"x"}])
def test_what_is_no_json(schema):
    assert refused(schema).startswith("a schema is JSON: ")


RAW = "\x1b[2J\u202e\n\ud800"
"""What clears a screen, turns the direction of writing, begins a line, and cannot be encoded."""


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": rf"\p{{{RAW}}}"},
        {"pattern": r"[\udfff-\ud800]"},
        {"$schema": "http://json-schema.org/draft-04/schema", "patternProperties": {rf"\p{{{RAW}}}": {}}},
        {"properties": {RAW: {"type": 5}}},
        {"properties": {RAW: {"pattern": "("}}},
        {"properties": {RAW * 1000: {"type": 5}}},
        {"$id": "http://x/", "items": {"$id": "http://\x1b\u202e\u2100/"}},
        {"$id": "http://x/", "items": {"$ref": f"http://[{RAW}/"}},
        {"$ref": RAW},
        {"$ref": f"#/{RAW}"},
        {"$schema": RAW},
        {"type": RAW},
    ],
)
def test_a_schema_that_is_refused_steers_no_terminal(schema):
    said = refused(schema)
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$schema": "http://json-schema.org/draft-03/schema", "type": RAW}, 1),
        ({"$ref": f"#{RAW}"}, 1),
        ({"enum": [RAW]}, RAW + "a"),
        ({"properties": {RAW: {"type": "string"}}}, {RAW: 1}),
        ({"pattern": RAW.replace("[", "")}, "a"),
        ({"dependentRequired": {RAW: [RAW + "a"]}}, {RAW: 1}),
    ],
)
def test_a_value_that_does_not_fit_steers_no_terminal(schema, value):
    said = told(schema, value)
    assert said.isprintable()
    assert len(said) < 500


def test_true_and_false_are_schemas():
    assert accepts(True, {"any": "thing"})
    assert not accepts(False, None)
    assert accepts({"properties": {"a": True, "b": False}}, {"a": 1})
    assert told({"properties": {"b": False}}, {"b": 1}) == "False schema does not allow 1"


def test_faults_have_places():
    schema = {"properties": {"a": {"items": {"type": "integer"}}}, "required": ["b"]}
    assert told(schema, {"a": [1, "x"]}) == "a[1]: 'x' is not of type 'integer'; 'b' is a required property"


def test_no_more_than_ten_faults_and_none_of_them_long():
    said = told({"items": {"type": "integer"}}, ["x" * 10_000] * 1000)
    assert said.count("xxx ") + said.count("[") <= 10
    assert len(said) < 3000


def test_a_format_informs_and_is_not_asserted():
    assert accepts({"type": "string", "format": "date-time"}, "yesterday")


# ----------------------------------------------------------------------------- references


@pytest.mark.spec(
    "basic/index/ref-no-network-deref",
    "basic/index/ref-opt-in-default-off",
    "basic/index/ref-unresolved-rejected",
)
@pytest.mark.parametrize(
    "target",
    [
        "https://example.com/schema.json",
        "http://127.0.0.1:9/x#/$defs/a",
        "file:///etc/passwd",
        "//example.com/x",
        "other.json",
        "/other.json",
        "urn:example:other",
        "http://[",
    ],
)
@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
def test_a_reference_out_of_the_schema_is_refused_and_never_fetched(target, key):
    for schema in (
        {key: target},
        {"properties": {"a": {"items": [{key: target}]}}},
        {"$id": "https://example.org/root", "not": {key: target}},
    ):
        assert refused(schema).startswith(
            (f"{key} {target!r} leads out of the schema", f"{target!r} is not a URI")
        )


@pytest.mark.spec("basic/index/ref-no-network-deref")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_dialect_fetches(dialect):
    schema = {"$schema": dialect, "properties": {"a": {"$ref": "http://example.com/a.json"}}}
    assert "never fetched" in refused(schema)
    assert "never fetched" in refused({**schema, "id": "http://example.com/b.json"})


def test_a_key_that_is_no_reference():
    schema = {"properties": {"$ref": {"type": "integer"}, "id": {"type": "string"}}}
    assert not accepts(schema, {"$ref": "https://example.com"})
    assert accepts(schema, {"$ref": 5, "id": "a"})


ITEM = {"type": "integer"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"item": ITEM}, "$ref": "#/$defs/item"},
        {"$defs": {"item": {"$anchor": "here", **ITEM}}, "$ref": "#here"},
        {"$defs": {"item": {"$dynamicAnchor": "here", **ITEM}}, "$dynamicRef": "#here"},
        {
            "$id": "https://example.com/a",
            "$defs": {"item": ITEM},
            "$ref": "https://example.com/a#/$defs/item",
        },
        {"$id": "https://example.com/a", "$defs": {"item": {"$id": "item", **ITEM}}, "$ref": "item"},
        {
            "$id": "https://example.com/d/a",
            "$defs": {"item": {"$id": "item", **ITEM}},
            "$ref": "https://example.com/d/item",
        },
        {
            "$id": "https://example.com/d/a",
            "$defs": {"item": {"$id": "e/item", "$defs": {"x": {"$id": "x", **ITEM}}, "$ref": "x"}},
            "$ref": "/d/e/item",
        },
        {"$defs": {"item": {"$id": "urn:example:item", **ITEM}}, "$ref": "urn:example:item"},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"item": {"$id": "#here", **ITEM}},
            "allOf": [{"$ref": "#here"}],
        },
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://example.com/a",
            "definitions": {"item": {"id": "item", **ITEM}},
            "allOf": [{"$ref": "item"}],
        },
    ],
)
def test_references_within_the_schema_work(schema):
    assert accepts(schema, 5)
    assert not accepts(schema, "x")


def test_the_schema_of_schemas_may_be_referred_to():
    schema = {"properties": {"inputSchema": {"$ref": NEWEST}}}
    assert accepts(schema, {"inputSchema": {"type": "object"}})
    assert not accepts(schema, {"inputSchema": {"type": "objekt"}})


@pytest.mark.spec("basic/index/ref-unresolved-rejected")
def test_a_reference_to_no_anchor_is_an_error_when_it_is_reached():
    schema = {"properties": {"a": {"$ref": "#nowhere"}}}
    assert accepts(schema, {})
    assert told(schema, {"a": 1}).startswith("the schema cannot be applied: ")


@pytest.mark.spec("basic/index/ref-unresolved-rejected")
@pytest.mark.parametrize("target", ["#/$defs/nowhere", "#/$defs/a/~2", "#/allOf/1", "#/allOf/x", "#/"])
def test_a_pointer_to_nothing_is_refused_with_the_schema(target):
    schema = {"allOf": [{}], "$defs": {"a": {}}, "properties": {"a": {"$ref": target}}}
    assert "leads nowhere in the schema" in refused(schema)


@pytest.mark.parametrize("target", ["#/$defs/a~1b~0c", "#/$defs/%C3%A9", "#/allOf/0", "#"])
def test_a_pointer_may_be_written_in_any_way_that_leads_somewhere(target):
    schema = {"allOf": [{}], "$defs": {"a/b~c": {}, "é": {}}, "properties": {"a": {"$ref": target}}}
    assert accepts(schema, {"a": 1}) or target == "#"


def test_data_that_looks_like_a_reference_is_none():
    schema = {"const": {"$ref": "http://example.com/x"}, "default": {"$ref": "#/nowhere"}}
    assert accepts(schema, {"$ref": "http://example.com/x"})
    names = {"properties": {"default": {"$ref": "http://example.com/x"}}}
    assert "never fetched" in refused(names)


def test_a_circle_of_references_on_finite_data():
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    assert accepts(tree, {"next": {"next": {}}})
    assert told(tree, {"next": {"next": 5}}) == "next.next: 5 is not of type 'object'"


# --------------------------------------------------------------------------------- bounds


def nested(depth):
    schema = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_a_deep_schema_is_refused():
    validator(nested(60))
    assert refused(nested(65)) == "the schema nests deeper than 64 levels"
    assert refused(nested(100_000)).startswith(("the schema nests", "a schema is JSON: "))
    assert "64 levels" in refused({"properties": {"a": {"enum": [nested(70)]}}})


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_a_huge_schema_is_refused():
    begun = time.thread_time()
    assert refused({"anyOf": [{}] * 30_000}) == "the schema has more than 20000 parts"
    assert refused({"enum": [[]] * 30_000}) == "the schema has more than 20000 parts"
    assert time.thread_time() - begun < 5


def bomb(levels, fan):
    """2 ** levels ways from the first definition to the last."""
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * fan} for n in range(levels)}
    return {"$defs": {**defs, f"d{levels}": {}}, "$ref": "#/$defs/d0"}


@pytest.mark.spec("basic/index/schema-validation-bounds")
@pytest.mark.parametrize(
    "schema",
    [
        bomb(50, 2),
        bomb(3, 100),
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "allOf": [{"$recursiveRef": "#"}]},
    ],
)
def test_references_that_multiply_end_quickly(schema):
    begun = time.thread_time()
    assert told(schema, {"a": 1}).startswith("validation was given up: ")
    assert time.thread_time() - begun < 5


def test_a_validation_after_one_that_was_given_up():
    told(bomb(50, 2), 1)
    assert accepts({"$defs": {"a": {}}, "$ref": "#/$defs/a"}, 1)


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_a_validation_ends_in_time(monkeypatch):
    """Each of a thousand alternatives looks through the whole value."""
    schema = {"anyOf": [{"contains": {"type": "integer"}, "title": str(n)} for n in range(1000)]}
    validator(schema)
    monkeypatch.setattr(validators, "MAX_VALIDATION_SECONDS", 0.1)
    begun = time.thread_time()
    assert told(schema, ["x" * 100] * 20_000) == "validation was given up: it takes longer than 0.1 seconds"
    assert time.thread_time() - begun < 5


def test_in_a_forked_child_schemas_are_checked_whoever_held_the_lock():
    """`forked` is what the child calls; the thread that held the lock is not there to let it go."""
    kept = validators._Cache()
    kept.get('{"type": "string"}')
    with kept._lock:
        kept.forked()
        assert kept.get('{"type": "string"}') is kept.get('{"type": "string"}')


@pytest.mark.parametrize(("work", "says"), [(0.01, None), (1.0, "it takes longer than 5.0 seconds")])
def test_what_a_validation_takes_is_counted_in_work_and_not_by_the_clock(monkeypatch, work, says):
    """Each look at the clock is a minute after the last: the machine is busy with something else."""
    schema = {"items": {"type": "string"}}
    validator(schema)
    clock, worked = itertools.count(step=60.0), itertools.count(step=work)
    stand_in = types.SimpleNamespace(monotonic=lambda: next(clock), thread_time=lambda: next(worked))
    monkeypatch.setattr(budget, "time", stand_in)
    if says is None:
        assert accepts(schema, ["x"] * 20)
    else:
        assert told(schema, ["x"] * 20) == f"validation was given up: {says}"


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_a_pattern_is_one_of_ecma_262():
    """Whose `$` is the very end: Python's would let a line feed pass after a name that is guarded."""
    schema = {"pattern": "^[a-z]+$", "patternProperties": {"^x$": False}, "additionalProperties": False}
    assert accepts(schema, "abc")
    assert told(schema, "abc\n") == "'abc\\n' does not match '^[a-z]+$'"
    assert "False schema" in told(schema, {"x": 1})
    assert "Additional properties" in told(schema, {"x\n": 1})
    assert accepts({"pattern": r"^\p{Lu}\p{Ll}+$"}, "\u00c9t\u00e9")


def test_a_pattern_that_could_take_for_ever_is_not_searched_for():
    said = told({"pattern": "^(a+)+$"}, "a" * 40 + "!")
    assert said == "validation was given up: the pattern '^(a+)+$' could take too long in 41 characters"
    assert told({"pattern": "^a"}, "b") == "'b' does not match '^a'"
    assert accepts({"pattern": "^a"}, "ab")
    assert accepts({"pattern": "^a"}, 5)


NEW = list(DIALECTS)[:2]
COSTLY = "^.*_.*_id$"
"""Takes quadratic time for a name of underscores."""


def by_name(dialect, pattern):
    """Schemas of a dialect in which names meet a pattern, in each way that there is."""
    part = {"patternProperties": {pattern: {}}}
    yield part
    yield {**part, "additionalProperties": False}
    joined = {"^x": {}, pattern: {}, "y$": {}}
    yield {"patternProperties": joined, "additionalProperties": {"type": "string"}}
    many = {f"^{n}|{pattern}": {} for n in range(300)}
    yield {"patternProperties": many, "additionalProperties": False}
    yield {"definitions": {"a": part}, "$ref": "#/definitions/a"}
    if dialect.endswith("3/schema"):
        yield {"extends": [part]}
    else:
        yield {"allOf": [part]}
        yield {"anyOf": [False, part] if dialect in NEW else [{"type": "null"}, part]}
    if not dialect.endswith(("3/schema", "4/schema")):
        yield {"propertyNames": {"pattern": pattern}}
    if dialect in NEW:
        yield {**part, "unevaluatedProperties": False}
        yield {"unevaluatedProperties": False, "$ref": "#/$defs/a", "$defs": {"a": part}}
        yield {"unevaluatedProperties": False, "if": {}, "then": part}


@pytest.mark.spec("basic/index/schema-validation-bounds")
@pytest.mark.parametrize("length", [30_000, 1_000_000])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_are_searched_as_values_are(dialect, length):
    """Processor time of this thread, which no other process of the machine adds to."""
    for words in by_name(dialect, COSTLY):
        schema = {"$schema": dialect, **words}
        begun = time.thread_time()
        said = told(schema, {"_" * length: "1"})
        assert time.thread_time() - begun < 5, words
        assert said.startswith("validation was given up: the pattern "), words
        assert "could take too long" in said
        assert accepts(schema, {"user_account_id": "1"})


@pytest.mark.spec("basic/index/schema-validation-bounds")
@pytest.mark.parametrize("inner", DIALECTS)
@pytest.mark.parametrize("outer", DIALECTS)
def test_a_dialect_within_a_schema_is_no_way_round_the_bounds(outer, inner):
    """The package itself goes over to its own class there, with none of our rules."""
    for within in ({"pattern": "^(a+)+$"}, {"properties": {"b": {"pattern": "^(a+)+$"}}}):
        schema = {"$schema": outer, "properties": {"a": {"$schema": inner, **within}}}
        value = "a" * 24 + "!" if "pattern" in within else {"b": "a" * 24 + "!"}
        assert "could take too long in 25 characters" in told(schema, {"a": value})
    many = [str(n) if n % 2 else n for n in range(10_000)]
    schema = {"$schema": outer, "properties": {"a": {"$schema": inner, "uniqueItems": True}}}
    begun = time.thread_time()
    assert accepts(schema, {"a": many})
    assert time.thread_time() - begun < 2


@pytest.mark.spec("basic/index/schema-validation-bounds")
@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
def test_many_names_and_many_patterns_end_in_time(monkeypatch, keyword):
    schema = {"patternProperties": {f"^[a-z]*{n}$": {} for n in range(500)}, keyword: False}
    validator(schema)
    monkeypatch.setattr(validators, "MAX_VALIDATION_SECONDS", 0.2)
    value = {"a" * 100 + str(n): n for n in range(100_000, 150_000)}
    begun = time.thread_time()
    assert told(schema, value) == "validation was given up: it takes longer than 0.2 seconds"
    assert time.thread_time() - begun < 5


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_what_is_unevaluated_is_found_in_linear_time():
    begun = time.thread_time()
    names = {f"name{n}": n for n in range(20_000)}
    assert accepts({"patternProperties": {"^name": {}}, "unevaluatedProperties": False}, names)
    assert accepts({"contains": {}, "unevaluatedItems": False}, list(range(20_000)))
    assert time.thread_time() - begun < 5


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_alternatives_that_do_not_fit_leave_nothing_behind():
    """Each has a complaint with the whole value in it: kept together they were a third of a gigabyte."""
    schema = {"anyOf": [{"type": "integer", "title": str(n)} for n in range(300)]}
    value = ["x" * 100] * 5000
    validator(schema)
    tracemalloc.start()
    try:
        assert "under any of the given schemas" in told(schema, value)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert "is valid under the given schemas 0 and 2" in told({"oneOf": [{}, False, {}, {}]}, value)


MIXED = [n if n % 2 else str(n) for n in range(8000)]
"""Constants that cannot be sorted, so that the package compares each with each."""


@pytest.mark.spec("basic/index/schema-validation-bounds")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_list_in_a_schema_is_checked_in_linear_time(dialect):
    begun = time.thread_time()
    validator({"$schema": dialect, "enum": MIXED})
    assert time.thread_time() - begun < 2


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_the_check_of_a_schema_ends_in_time(monkeypatch):
    monkeypatch.setattr(validators, "MAX_VALIDATION_SECONDS", 0.1)
    begun = time.thread_time()
    said = refused({"anyOf": [{"type": "integer", "title": str(n)} for n in range(10_000)]})
    assert said == "the check of the schema was given up: it takes longer than 0.1 seconds"
    assert time.thread_time() - begun < 5


WIDE = "(?i)" + "[\u0100-\ufff0]" * 50
"""A pattern that takes a quarter of a second to be compiled."""
OLD = "http://json-schema.org/draft-04/schema"


@pytest.mark.spec("basic/index/schema-validation-bounds")
@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": OLD, "patternProperties": {f"{WIDE}{n}": {} for n in range(20)}},
        {"$schema": NEWEST, "patternProperties": {f"{WIDE}{n}b": {} for n in range(20)}},
        {"anyOf": [{"pattern": f"{WIDE}{n}c"} for n in range(20)]},
        {
            "$id": "http://x/" + "a/" * 480,
            "anyOf": [{"$id": "../" * 10} for _ in range(15_000)],
            "$ref": "http://example.com/",  # refused for this, once it is reached
        },
    ],
    ids=["names, which the dialect does not check", "names", "patterns", "references"],
)
def test_each_part_of_the_check_of_a_schema_ends_in_time(monkeypatch, schema):
    monkeypatch.setattr(validators, "MAX_VALIDATION_SECONDS", 0.1)
    begun = time.thread_time()
    said = refused(schema)
    assert said == "the check of the schema was given up: it takes longer than 0.1 seconds"
    assert time.thread_time() - begun < 1.5


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_a_pattern_that_takes_long_to_estimate_ends_in_time(monkeypatch):
    schema = {"pattern": "(" * 5 + "ab" * 2000 + "){1,2}" * 5}
    made = validator(schema)
    monkeypatch.setattr(validators, "MAX_VALIDATION_SECONDS", 0.1)
    begun = time.thread_time()
    with pytest.raises(Mismatch, match=r"it takes longer than 0\.1 seconds"):
        made.check("a" * 100)
    assert time.thread_time() - begun < 0.7


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_a_long_schema_is_refused():
    assert refused({"enum": ["x" * 1000] * 1100}) == "the schema has more than 1048576 bytes"
    assert refused({"description": "x" * 2_000_000}) == "the schema has more than 1048576 bytes"
    assert "has more than 5000 characters" in refused({"patternProperties": {"a" * 6000: {}}})
    assert "has more than 5000 characters" in refused({"pattern": "a" * 6000})


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_a_long_base_is_not_multiplied():
    """A short URI for each part, against a base of half a megabyte, would be gigabytes."""
    parts = {f"p{n}": {"$id": str(n)} for n in range(5000)}
    begun = time.thread_time()
    assert "more than 1000 characters" in refused({"$id": "http://x/" + "a/" * 200_000, "properties": parts})
    assert "more than 1000 characters" in refused({"$id": "http://x/" + "a/" * 490, "$ref": "b" * 500})
    assert time.thread_time() - begun < 2


@pytest.mark.spec("basic/index/schema-validation-bounds")
def test_unique_items_of_many_objects_are_compared_at_once():
    begun = time.thread_time()
    many = [{"n": n} for n in range(20_000)]
    assert accepts({"uniqueItems": True}, many)
    assert told({"uniqueItems": True}, [*many, {"n": 7}]) == "holds an item twice"
    assert time.thread_time() - begun < 5


def test_unique_items():
    assert accepts({"uniqueItems": True}, [1, True, "1", None, [1], {"a": 1}])
    assert accepts({"uniqueItems": False}, [1, 1])
    assert accepts({"uniqueItems": True}, "aa")
    assert not accepts({"uniqueItems": True}, [1, 1.0])


def test_a_deep_value_is_no_crash():
    value = []
    for _ in range(5000):
        value = [value]
    assert told({"items": {"$ref": "#"}}, value).startswith("validation was given up: ")
    assert told({"uniqueItems": True}, value).startswith("validation was given up: ")


# ---------------------------------------------------------------------------------- cache


def test_a_schema_is_compiled_once():
    schema = {"type": "object", "title": "compiled once"}
    assert validator(schema) is validator(json.loads(json.dumps(schema)))
    assert validator({"b": 1, "a": 2}) is validator({"a": 2, "b": 1})


def test_a_schema_that_changes_is_another_schema():
    schema = {"type": "object", "title": "changes"}
    first = validator(schema)
    schema["type"] = "array"
    assert validator(schema) is not first
    first.check({})


def test_the_cache_is_bounded():
    for n in range(validators.MAX_CACHED_VALIDATORS + 10):
        validator({"title": f"extra {n}"})
    assert len(validators._cache._validators) == validators.MAX_CACHED_VALIDATORS


def test_the_cache_is_bounded_by_the_bytes_of_its_schemas_too():
    first = validator({"title": "first"})
    for n in range(10):
        validator({"description": f"{n}" * (validators.MAX_SCHEMA_BYTES - 100)})
        assert validator({"title": "first"}) is first  # what is used stays
    kept = validators._cache._validators
    assert sum(map(len, kept)) == validators._cache._size <= validators.MAX_CACHED_SCHEMA_BYTES
    assert 2 <= len(kept) <= 5


def test_in_a_forked_child_the_cache_begins_empty(monkeypatch):
    """Its lock may be held there for ever, by a thread that the child does not have."""
    monkeypatch.setattr(forks, "count", forks.count)
    monkeypatch.setattr(forks, "_functions", [])
    monkeypatch.setattr(forks, "_told", forks.WeakSet())
    cache = validators._Cache()
    cache.get("{}")
    lock = cache._lock
    forks._in_child()
    assert (len(cache._validators), cache._size) == (0, 0)
    assert cache._lock is not lock


def test_many_threads_share_a_validator():
    schema = {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}
    shared, wrong = Validator(schema), []
    start = threading.Barrier(6)

    def work(number):
        start.wait(PATIENCE)
        for _ in range(20):
            good, bad = [[[]] * 10, [[]]], [[[number]]]
            shared.check(good)
            try:
                shared.check(bad)
                wrong.append("accepted")
            except Mismatch as problem:
                if not str(problem).startswith(f"[0][0][0]: {number} is not"):
                    wrong.append(str(problem))
            try:
                validator(bomb(30, 2)).check(number)
                wrong.append("no bomb")
            except Mismatch:
                pass

    validator_threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    old, validators.MAX_REFERENCES = validators.MAX_REFERENCES, 500
    try:
        for thread in validator_threads:
            thread.start()
        for thread in validator_threads:
            thread.join(PATIENCE)
    finally:
        validators.MAX_REFERENCES = old
    assert not wrong


# ---------------------------------------------------------------------- any schema, any value

KEYWORDS = ("type", "const", "enum", "items", "properties", "required", "$ref", "anyOf", "minimum", "$id")
any_schema = st.recursive(
    st.booleans() | st.dictionaries(st.sampled_from(KEYWORDS), json_values, max_size=3),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.text(max_size=2), inner, max_size=2)}),
        st.fixed_dictionaries({"uniqueItems": st.booleans(), "items": inner}),
        st.fixed_dictionaries({"$defs": st.fixed_dictionaries({"a": inner}), "$ref": st.just("#/$defs/a")}),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(any_schema, json_values)
def test_a_strangers_schema_says_yes_or_no_or_is_refused(schema, value):
    try:
        checked = validator(schema)
    except BadSchema as problem:
        assert str(problem)
        return
    try:
        checked.check(value)
        said = True
    except Mismatch as problem:
        assert str(problem)
        if "cannot be applied" in str(problem) or "given up" in str(problem):
            return
        said = False
    assert said == jsonschema.Draft202012Validator(schema).is_valid(value)


names = st.dictionaries(
    st.sampled_from(["a", "ab", "b", "bc", "c"]), st.sampled_from([1, "x", None]), max_size=4
)


def alternatives(inner):
    return st.one_of(
        st.builds(lambda k, a, b: {k: [a, b]}, st.sampled_from(["allOf", "anyOf", "oneOf"]), inner, inner),
        st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
        st.builds(lambda n, a: {"dependentSchemas": {n: a}}, st.sampled_from(["a", "b"]), inner),
    )


of_names = st.recursive(
    st.one_of(
        st.builds(lambda n: {"properties": {n: {}}}, st.sampled_from(["a", "ab", "b"])),
        st.builds(lambda p: {"patternProperties": {p: {}}}, st.sampled_from(["a", "^b", "c$", ".."])),
        st.builds(lambda p: {"patternProperties": {p: {"type": "integer"}}}, st.sampled_from(["a", "b"])),
        st.builds(lambda n: {"required": [n]}, st.sampled_from(["a", "c"])),
        st.sampled_from([{"properties": {"a": {"type": "string"}}}, {"$ref": "#/$defs/d"}]),
    ),
    alternatives,
    max_leaves=5,
)
extras = st.sampled_from(
    [
        {},
        {"additionalProperties": False},
        {"additionalProperties": {"type": "integer"}},
        {"unevaluatedProperties": False},
        {"unevaluatedProperties": {"type": "string"}},
    ]
)


@settings(deadline=None, max_examples=400)
@given(of_names, extras, names)
def test_our_rules_for_names_say_what_the_package_says(schema, extra, value):
    whole = {**schema, **extra, "$defs": {"d": {"properties": {"c": {}}}}}
    assert accepts(whole, value) == jsonschema.Draft202012Validator(whole).is_valid(value)


of_items = st.recursive(
    st.one_of(
        st.builds(lambda n: {"prefixItems": [{}] * n}, st.integers(1, 3)),
        st.builds(lambda t: {"contains": {"type": t}}, st.sampled_from(["integer", "string", "null"])),
        st.sampled_from([{"items": {}}, {"items": {"type": "integer"}}, {"maxItems": 2}, {}]),
    ),
    alternatives,
    max_leaves=5,
)


@settings(deadline=None, max_examples=300)
@given(of_items, st.lists(st.sampled_from([1, "x", None]), max_size=4))
def test_our_rule_for_items_says_what_the_package_says(schema, value):
    whole = {**schema, "unevaluatedItems": False}
    assert accepts(whole, value) == jsonschema.Draft202012Validator(whole).is_valid(value)


def test_what_is_unevaluated_may_still_fit_the_schema_for_it():
    schema = {"prefixItems": [{}], "unevaluatedItems": {"type": "string"}}
    assert accepts(schema, [1, "x"])
    assert told(schema, ["x", 1]) == "Unevaluated items are not allowed: 1"
    old = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "items": [{}],
        "unevaluatedItems": False,
    }
    assert accepts(old, [1])
    assert not accepts(old, [1, 2])
    assert accepts({**old, "additionalItems": {}}, [1, 2])


def test_what_is_unevaluated_behind_a_reference():
    defs = {"$defs": {"a": {"$dynamicAnchor": "x", "properties": {"a": {}}}}, "unevaluatedProperties": False}
    for reference in ({"$ref": "#/$defs/a"}, {"$dynamicRef": "#x"}):
        assert accepts({**defs, **reference}, {"a": 1})
        assert "not allowed: 'b'" in told({**defs, **reference}, {"a": 1, "b": 2})
    old = {"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"a": {}}}
    inner = {**old, "properties": {"a": {"$recursiveRef": "#", "unevaluatedProperties": False}}}
    assert accepts(inner, {"a": {"a": {}}})
    assert "not allowed: 'b'" in told(inner, {"a": {"b": 1}})


def test_a_pattern_that_counts_too_far_is_refused():
    assert "too large" in refused({"pattern": "a{99999999999}"})
    assert "too large" in refused({"patternProperties": {"a{99999999999}": {}}})
