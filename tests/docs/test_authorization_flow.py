"""docs/basic/authorization/index.rst: the picture of the flow, and the clause of each of its messages."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "basic" / "authorization" / "index.rst"


def test_each_message_of_the_picture_has_a_clause_that_there_is() -> None:
    text = PAGE.read_text(encoding="utf-8")
    picture, table = text.partition(".. list-table::")[::2]
    drawn = [int(number) for number in re.findall(r"[ -](\d+) [a-zA-Z0-9]", picture.partition("::\n")[2])]
    rows = re.findall(r"   - - (\d+)\n     - `(.+)`\n     - .+", table)
    assert sorted(set(drawn) & set(range(1, 20))) == [int(number) for number, _ in rows] == list(range(1, 20))
    with (ROOT / "docs" / "clauses.tsv").open(encoding="utf-8", newline="") as file:
        known = {row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
    assert {clause for _, clause in rows} <= known
