"""runtime/seals: of the texts that clients keep, only our own are accepted, for one purpose, for a while."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import json_values

from mcp_ref.runtime import seals
from mcp_ref.runtime.seals import BadSeal, Seal, secrets_of

OLD, NEW, OTHER = (
    b"the old secret of this server",
    b"the new secret of this server",
    b"somebody else's secret",
)
BOUND = b"tools/call for ann"
VALUE = {"answers": {"1": ["mark", {"action": "accept"}]}}
SEALED = Seal([NEW]).sign(VALUE, BOUND)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def refused(text, seal=None, bound_to=BOUND):
    """Why a text is not read."""
    with pytest.raises(BadSeal) as problem:
        (seal or Seal([NEW])).verify(text, bound_to)
    return str(problem.value)


@given(value=json_values, bound_to=st.binary(max_size=40))
def test_what_was_signed_is_verified(value, bound_to):
    seal = Seal([NEW])
    assert seal.verify(seal.sign(value, bound_to), bound_to) == value


@given(
    text=st.text() | st.text(ALPHABET) | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode())
)
def test_any_other_text_is_broken(text):
    refused(text)


@given(data=st.data())
def test_a_text_with_another_character_in_it_is_broken(data):
    at = data.draw(st.integers(0, len(SEALED)))
    until = at + data.draw(st.integers(0, 3))
    text = SEALED[:at] + data.draw(st.text(ALPHABET, max_size=3)) + SEALED[until:]
    if text != SEALED:
        refused(text)


def test_a_text_altered_by_one_bit_at_any_position_is_broken():
    for position in range(len(SEALED)):
        for bit in range(7):
            altered = chr(ord(SEALED[position]) ^ (1 << bit))
            refused(SEALED[:position] + altered + SEALED[position + 1 :])


def test_a_text_whose_bytes_are_altered_by_one_bit_is_broken():
    """The same below the base64, so that nothing is refused for its looks."""
    raw = base64.urlsafe_b64decode(SEALED + "=" * (-len(SEALED) % 4))
    for position in range(len(raw)):
        for bit in range(8):
            altered = bytearray(raw)
            altered[position] ^= 1 << bit
            text = base64.urlsafe_b64encode(altered).decode().rstrip("=")
            assert refused(text) == "it was altered, or belongs to another request, caller or server"


def test_a_text_is_written_in_one_way_only():
    """Bits of the last character that stand for nothing are zero: else one text had several texts."""
    texts = [Seal([NEW]).sign("x" * length, BOUND) for length in range(3)]
    assert {len(text) % 4 for text in texts} == {0, 2, 3}
    for text in texts:
        for last in ALPHABET:
            if last != text[-1]:
                refused(text[:-1] + last)
        refused(text + "=")
        refused(text + "\n")


def test_a_text_that_was_truncated_is_broken():
    for length in range(len(SEALED)):
        refused(SEALED[:length])


def test_a_text_that_is_too_long_is_not_even_read():
    assert refused("A" * (seals.MAX_CHARACTERS + 1)) == f"longer than {seals.MAX_CHARACTERS} characters"


def test_a_text_is_good_for_what_it_is_bound_to_only():
    for bound_to in (b"", b"tools/call for bob", BOUND + b"\0", BOUND[:-1]):
        refused(SEALED, bound_to=bound_to)


def test_the_end_of_the_binding_is_not_the_beginning_of_the_note():
    """A text for `ab` is none for `a`, whatever stands before it."""
    seal = Seal([NEW])
    text = seal.sign("x", b"ab")
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    moved = raw[:32] + b"b" + raw[32:]
    refused(base64.urlsafe_b64encode(moved).decode().rstrip("="), seal, b"a")


def test_a_text_ends():
    now = [1000.0]
    seal = Seal([NEW], 60.0, lambda: now[0])
    text = seal.sign(VALUE, BOUND)
    now[0] += 60.0
    assert seal.verify(text, BOUND) == VALUE
    now[0] += 0.001
    assert refused(text, seal) == "it has expired"


def test_the_end_cannot_be_moved():
    text = Seal([NEW], 60.0, lambda: 1000.0).sign(VALUE, BOUND)
    raw = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    for end in (float("inf"), float("nan"), 1e300):
        raw[32:40] = struct.pack(">d", end)
        refused(base64.urlsafe_b64encode(raw).decode().rstrip("="))


def test_who_has_the_secret_reads_the_texts_of_others():
    assert Seal([NEW]).verify(Seal([NEW]).sign(VALUE, BOUND), BOUND) == VALUE
    assert "server" in refused(SEALED, Seal([OTHER]))


def test_without_a_secret_each_has_its_own():
    one, other = Seal(), Seal()
    text = one.sign(VALUE, BOUND)
    assert one.verify(text, BOUND) == VALUE
    refused(text, other)


def test_secrets_are_changed_while_texts_are_under_way():
    before, between, after = Seal([OLD]), Seal([NEW, OLD]), Seal([NEW])
    text = before.sign(VALUE, BOUND)
    assert between.verify(text, BOUND) == VALUE
    refused(text, after)
    text = between.sign(VALUE, BOUND)  # the first one signs
    assert after.verify(text, BOUND) == VALUE
    refused(text, before)


def test_a_text_is_not_secret():
    """The docstring says so: who holds it can read it."""
    raw = base64.urlsafe_b64decode(SEALED + "=" * (-len(SEALED) % 4))
    assert json.loads(raw[40:]) == VALUE


def test_what_cannot_travel_is_not_signed():
    seal = Seal([NEW])
    with pytest.raises(ValueError, match="more than the"):
        seal.sign("x" * seals.MAX_CHARACTERS, BOUND)
    for value in (float("nan"), "\ud800"):
        with pytest.raises(ValueError):
            seal.sign(value, BOUND)


def test_secrets_are_text_or_bytes_and_one_or_several():
    assert secrets_of(None) == ()
    assert secrets_of(NEW) == secrets_of(NEW.decode()) == secrets_of([NEW]) == (NEW,)
    assert secrets_of((NEW.decode(), OLD)) == (NEW, OLD)
    assert secrets_of("ä" * 8) == ("ä".encode() * 8,)


@pytest.mark.parametrize("given", [[], 5, [5], [None, NEW]])
def test_what_is_no_secret_is_refused(given):
    with pytest.raises(TypeError):
        secrets_of(given)


@pytest.mark.parametrize("given", ["", b"short", [NEW, b"fifteen bytes.."]])
def test_a_secret_that_could_be_guessed_is_refused(given):
    with pytest.raises(ValueError, match="at least 16 bytes"):
        secrets_of(given)


def test_a_text_of_another_process_says_that_the_secret_is_to_be_shared():
    """Of a server that made its secret up, since it was given none."""
    text = Seal().sign(1, BOUND)
    with pytest.raises(BadSeal, match=r"this process made up its secret .*Server\(secret=\.\.\.\)"):
        Seal().verify(text, BOUND)
    with pytest.raises(BadSeal) as refused:
        Seal([NEW]).verify(text, BOUND)
    assert "made up" not in str(refused.value)
