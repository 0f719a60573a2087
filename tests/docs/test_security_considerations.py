"""docs/basic/authorization/security_considerations.rst: the page, answered line by line."""

from __future__ import annotations

import ast
import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "basic" / "authorization" / "security_considerations.rst"
ROW = re.compile(r"   - - ([a-z0-9-]+)\n     - (.+)\n     -(?: `(.+)`)?\n     -(?: `(.+)`)?\n")


def answers() -> list[tuple[str, str, str, str]]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_each_line_of_the_page_is_answered() -> None:
    with (ROOT / "docs" / "clauses.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        wanted = [
            row["id"].rpartition("/")[2]
            for row in rows
            if row["page"] == "basic/authorization/security-considerations"
        ]
    assert [clause for clause, *_ in answers()] == wanted


def test_what_is_named_as_the_place_and_the_test_is_there() -> None:
    for clause, _, module, test in answers():
        if module:
            places = ROOT / "mcp_ref" / f"{module}.py", ROOT / "mcp_ref" / module / "__init__.py"
            assert any(place.is_file() for place in places), clause
        if test:
            file, _, name = test.partition("::")
            tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
            assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, clause


def test_only_what_no_code_can_do_has_no_test() -> None:
    assert {clause for clause, _, _, test in answers() if not test} == {"localhost-attestation"}
