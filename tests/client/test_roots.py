"""client/roots: the shapes, as each revision has them."""

import pytest
from peers import LEGACY, MODERN, REVISIONS

from mcp_ref.client import roots
from mcp_ref.schema import Mismatch, checker, definitions, pruner

ROOT = {"uri": "file:///home/x", "name": "x", "_meta": {"a": 1}}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_root_has_a_uri(date):
    checker(roots.ListRootsResult, date)({"roots": [ROOT, {"uri": "file:///y"}]})
    for wrong in ({}, {"roots": [{"name": "x"}]}, {"roots": "x"}, {"roots": [{"uri": 5}]}):
        with pytest.raises(Mismatch, match="roots"):
            checker(roots.ListRootsResult, date)(wrong)


@pytest.mark.parametrize("date", REVISIONS)
def test_meta_on_a_root_came_with_2025_06_18(date):
    assert ("_meta" in pruner(roots.Root, date)(ROOT)) == (date >= "2025-06-18")


@pytest.mark.parametrize("date", REVISIONS)
def test_the_request_is_a_message_of_its_own_in_the_legacy_era_only(date):
    members = definitions(date)["ListRootsRequest"]["properties"]
    assert "method" in members
    assert ("id" in members) == (date == LEGACY[3])  # before, the shapes left it to JSONRPCRequest
    assert ("RootsListChangedNotification" in definitions(date)) == (date != MODERN)
