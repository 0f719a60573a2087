"""Tasks as of 2025-11-25 (page: basic/utilities/tasks): the one shape that there is so far."""

from __future__ import annotations

import pytest
from peers import REVISIONS

from mcp_ref.basic.utilities.tasks import TaskMetadata
from mcp_ref.schema import Mismatch, checker, definitions


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_shape_exists_in_2025_11_25_only(revision: str) -> None:
    assert ("TaskMetadata" in definitions(revision)) == (revision == "2025-11-25")


def test_ttl_is_a_number_of_milliseconds_and_may_be_missing() -> None:
    check = checker(TaskMetadata, "2025-11-25")
    check({})
    check({"ttl": 60000})
    with pytest.raises(Mismatch, match="ttl"):
        check({"ttl": "long"})
