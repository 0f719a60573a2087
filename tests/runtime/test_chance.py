"""runtime/chance: any part of a pause, none more likely than another."""

from mcp_ref.runtime import chance


def test_a_fraction_is_at_least_0_and_less_than_1(monkeypatch):
    monkeypatch.setattr(chance.os, "urandom", lambda size: b"\0" * size)
    assert chance.fraction() == 0.0
    monkeypatch.setattr(chance.os, "urandom", lambda size: b"\xff" * size)
    assert 0.999 < chance.fraction() < 1.0


def test_all_tenths_are_met():
    """2,000 draws miss one of ten with a probability of 1e-90."""
    assert {int(10 * chance.fraction()) for _ in range(2000)} == set(range(10))
