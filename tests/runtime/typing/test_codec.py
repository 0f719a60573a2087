"""runtime/typing/codec: what a compiled hint is made of."""

import dataclasses

import pytest

from mcp_ref.runtime.typing.codec import Codec, Field


def test_a_codec_is_four_things_and_does_not_change():
    codec = Codec({"type": "integer"}, int, str, "an integer")
    assert (codec.load("5"), codec.dump(5), codec.says) == (5, "5", "an integer")
    with pytest.raises(dataclasses.FrozenInstanceError):
        codec.says = "another"


def test_a_field_has_no_default_unless_one_is_given():
    assert Field("a", int, True).default is None
