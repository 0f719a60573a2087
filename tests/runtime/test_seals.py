"""runtime/seals: of the notes that strangers carry, only our own are read, for one purpose, for a while."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import json_values

from mcp_ref.runtime import seals
from mcp_ref.runtime.seals import Broken, Seal, secrets_of

OLD, NEW, OTHER = (
    b"the old secret of this server",
    b"the new secret of this server",
    b"somebody else's secret",
)
BOUND = b"tools/call for ann"
VALUE = {"answers": {"1": ["mark", {"action": "accept"}]}}
NOTE = Seal([NEW]).close(VALUE, BOUND)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def refused(text, seal=None, bound_to=BOUND):
    """Why a note is not read."""
    with pytest.raises(Broken) as problem:
        (seal or Seal([NEW])).open(text, bound_to)
    return str(problem.value)


@given(value=json_values, bound_to=st.binary(max_size=40))
def test_what_was_closed_is_opened(value, bound_to):
    seal = Seal([NEW])
    assert seal.open(seal.close(value, bound_to), bound_to) == value


@given(
    text=st.text() | st.text(ALPHABET) | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode())
)
def test_any_other_text_is_broken(text):
    refused(text)


@given(data=st.data())
def test_a_note_with_another_character_in_it_is_broken(data):
    at = data.draw(st.integers(0, len(NOTE)))
    until = at + data.draw(st.integers(0, 3))
    text = NOTE[:at] + data.draw(st.text(ALPHABET, max_size=3)) + NOTE[until:]
    if text != NOTE:
        refused(text)


def test_a_note_altered_by_one_bit_at_any_position_is_broken():
    for position in range(len(NOTE)):
        for bit in range(7):
            altered = chr(ord(NOTE[position]) ^ (1 << bit))
            refused(NOTE[:position] + altered + NOTE[position + 1 :])


def test_a_note_whose_bytes_are_altered_by_one_bit_is_broken():
    """The same below the base64, so that nothing is refused for its looks."""
    raw = base64.urlsafe_b64decode(NOTE + "=" * (-len(NOTE) % 4))
    for position in range(len(raw)):
        for bit in range(8):
            altered = bytearray(raw)
            altered[position] ^= 1 << bit
            text = base64.urlsafe_b64encode(altered).decode().rstrip("=")
            assert refused(text) == "it was altered, or belongs to another request, caller or server"


def test_a_note_is_written_in_one_way_only():
    """Bits of the last character that stand for nothing are zero: else one note had several texts."""
    notes = [Seal([NEW]).close("x" * length, BOUND) for length in range(3)]
    assert {len(note) % 4 for note in notes} == {0, 2, 3}
    for note in notes:
        for last in ALPHABET:
            if last != note[-1]:
                refused(note[:-1] + last)
        refused(note + "=")
        refused(note + "\n")


def test_a_note_that_was_truncated_is_broken():
    for length in range(len(NOTE)):
        refused(NOTE[:length])


def test_a_note_that_is_too_long_is_not_even_read():
    assert refused("A" * (seals.MAX_TEXT + 1)) == f"longer than {seals.MAX_TEXT} characters"


def test_a_note_is_good_for_what_it_is_bound_to_only():
    for bound_to in (b"", b"tools/call for bob", BOUND + b"\0", BOUND[:-1]):
        refused(NOTE, bound_to=bound_to)


def test_the_end_of_the_binding_is_not_the_beginning_of_the_note():
    """A note for `ab` is none for `a`, whatever stands before it."""
    seal = Seal([NEW])
    note = seal.close("x", b"ab")
    raw = base64.urlsafe_b64decode(note + "=" * (-len(note) % 4))
    moved = raw[:32] + b"b" + raw[32:]
    refused(base64.urlsafe_b64encode(moved).decode().rstrip("="), seal, b"a")


def test_a_note_ends():
    now = [1000.0]
    seal = Seal([NEW], 60.0, lambda: now[0])
    note = seal.close(VALUE, BOUND)
    now[0] += 60.0
    assert seal.open(note, BOUND) == VALUE
    now[0] += 0.001
    assert refused(note, seal) == "it has expired"


def test_the_end_cannot_be_moved():
    note = Seal([NEW], 60.0, lambda: 1000.0).close(VALUE, BOUND)
    raw = bytearray(base64.urlsafe_b64decode(note + "=" * (-len(note) % 4)))
    for end in (float("inf"), float("nan"), 1e300):
        raw[32:40] = struct.pack(">d", end)
        refused(base64.urlsafe_b64encode(raw).decode().rstrip("="))


def test_who_has_the_secret_reads_the_notes_of_others():
    assert Seal([NEW]).open(Seal([NEW]).close(VALUE, BOUND), BOUND) == VALUE
    assert "server" in refused(NOTE, Seal([OTHER]))


def test_without_a_secret_each_has_its_own():
    one, other = Seal(), Seal()
    note = one.close(VALUE, BOUND)
    assert one.open(note, BOUND) == VALUE
    refused(note, other)


def test_secrets_are_changed_while_notes_are_under_way():
    before, between, after = Seal([OLD]), Seal([NEW, OLD]), Seal([NEW])
    note = before.close(VALUE, BOUND)
    assert between.open(note, BOUND) == VALUE
    refused(note, after)
    note = between.close(VALUE, BOUND)  # the first one signs
    assert after.open(note, BOUND) == VALUE
    refused(note, before)


def test_a_note_is_not_secret():
    """The docstring says so: who holds it can read it."""
    raw = base64.urlsafe_b64decode(NOTE + "=" * (-len(NOTE) % 4))
    assert json.loads(raw[40:]) == VALUE


def test_what_cannot_travel_is_not_closed():
    seal = Seal([NEW])
    with pytest.raises(ValueError, match="more than the"):
        seal.close("x" * seals.MAX_TEXT, BOUND)
    for value in (float("nan"), "\ud800"):
        with pytest.raises(ValueError):
            seal.close(value, BOUND)


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


def test_a_note_of_another_process_says_that_the_secret_is_to_be_shared():
    """Of a server that made its secret up, since it was given none."""
    text = Seal().close(1, BOUND)
    with pytest.raises(Broken, match=r"this process made up its secret .*Server\(secret=\.\.\.\)"):
        Seal().open(text, BOUND)
    with pytest.raises(Broken) as refused:
        Seal([NEW]).open(text, BOUND)
    assert "made up" not in str(refused.value)
