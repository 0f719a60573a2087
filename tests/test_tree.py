"""The tree of the package: what stands in which room, and who may import whom.

    runtime <- schema <- basic <- server <- client <- extensions <- api <- cli, extras

Pages of the specification are in basic, server, client and extensions, and nothing else is. `client` comes
after `server` because a message of sampling is made of the content of server features.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clauses import Clause, marks_in_code, read_registry

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mcp_ref"
FLOORS = ("runtime", "schema", "basic", "server", "client", "extensions", "api", "cli", "extras")
PAGE_FOLDERS = ("basic", "server", "client", "extensions")

# Shapes of a later page that a field of an earlier one has, as in the official schemas. Under TYPE_CHECKING
# only: nothing is imported when the code runs.
SEEN_BY_THE_TYPE_CHECKER = {
    ("mcp_ref.schema", "mcp_ref.basic.versioning"): "the rows that the envelopes of messages are made from",
    (
        "mcp_ref.basic.index.general_fields",
        "mcp_ref.server.utilities.logging",
    ): "LoggingLevel is a field of _meta",
    ("mcp_ref.basic.lifecycle", "mcp_ref.server.utilities.logging"): "a session has a log level",
    (
        "mcp_ref.basic.patterns.mrtr.basic_workflow",
        "mcp_ref.client.elicitation.url_mode",
    ): "an application knows which elicitations are completed",
    ("mcp_ref.basic.patterns.index.context", "mcp_ref.server.utilities.logging"): "a request has a log level",
}


UPWARD = {
    (
        "mcp_ref.api.registering",
        "mcp_ref.extras.directories",
    ): "server.add_directory is a method",
}
"""Imports against the direction, late ones, with the reason."""


class Import(NamedTuple):
    """One import of a module of ours by another."""

    importer: str
    imported: str
    line: int
    kind: str
    """"module", "function", or "typing"."""
    says_why: bool
    """Whether a comment stands on its line or on the one above it."""


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def floor(module: str) -> int:
    """How far up a module stands. The top of the package is below the applications that are built with it."""
    part = module.partition(".")[2].partition(".")[0]
    if part == "__main__":
        return len(FLOORS)
    return FLOORS.index(part) if part in FLOORS else FLOORS.index("api")


def imports_of(module: str) -> Iterator[Import]:
    source = MODULES[module].read_text(encoding="utf-8")
    lines = source.splitlines()

    def visit(node: ast.AST, kind: str) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inner = kind
            if isinstance(child, ast.FunctionDef):
                inner = "function"
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                inner = "typing"
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("mcp_ref"):
                says_why = any("#" in lines[number] for number in (child.lineno - 2, child.lineno - 1))
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    imported = full if full in MODULES else str(child.module)
                    yield Import(module, imported, child.lineno, inner, says_why)
            yield from visit(child, inner)

    yield from visit(ast.parse(source), "module")


IMPORTS = [found for module in MODULES for found in imports_of(module)]


def is_upward(found: Import) -> bool:
    top = {"cli", "extras"}
    here, there = found.importer.split(".")[1:2], found.imported.split(".")[1:2]
    if here and there and here != there and {*here, *there} == top:
        return True  # neither of the two knows the other
    return floor(found.imported) > floor(found.importer)


def test_imports_go_one_way_at_module_and_at_function_level() -> None:
    wrong = {(f.importer, f.imported): f.kind for f in IMPORTS if is_upward(f) and f.kind != "typing"}
    assert wrong == dict.fromkeys(UPWARD, "function")


def test_what_only_the_type_checker_sees_from_above_is_listed_with_its_reason() -> None:
    seen = {(f.importer, f.imported) for f in IMPORTS if is_upward(f) and f.kind == "typing"}
    assert seen == set(SEEN_BY_THE_TYPE_CHECKER)


def test_an_import_within_a_function_says_why_it_is_late() -> None:
    """Start-up time is the one reason: whoever speaks stdio need not load HTTP."""
    silent = [found for found in IMPORTS if found.kind == "function" and not found.says_why]
    assert silent == []


# -- the pages, and the headings of each ------------------------------------------------------------


def read_tsv(name: str) -> list[dict[str, str]]:
    with (ROOT / "docs" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


CLAUSES = {row["id"]: (row["page"], row["section"]) for row in read_tsv("clauses.tsv")}
HEADINGS = {row["module"]: (row["page"], row["headings"].split()) for row in read_tsv("headings.tsv")}
"""docs/headings.tsv: each module of the page folders, its page, and the headings of the page that it has."""


def of_pages() -> Iterator[tuple[str, Path]]:
    for folder in PAGE_FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            if path.name != "__init__.py":
                yield path.relative_to(PACKAGE).with_suffix("").as_posix(), path


def tagged(path: Path) -> Iterator[str]:
    """The clauses that a module is marked with."""
    for marks in re.findall(r"# spec: ([^\n\"]+)", path.read_text(encoding="utf-8")):
        yield from (mark.strip() for mark in marks.split(","))


def test_every_module_of_the_page_folders_has_a_page_and_headings_that_there_are() -> None:
    assert sorted(module for module, _ in of_pages()) == sorted(HEADINGS)
    known = set(CLAUSES.values())
    for module, (page, headings) in HEADINGS.items():
        assert headings, module
        assert {(page, heading) for heading in headings} <= known, module


def test_a_module_has_the_headings_whose_clauses_it_keeps() -> None:
    for module, path in of_pages():
        page, headings = HEADINGS[module]
        kept = {CLAUSES[clause][1] for clause in tagged(path) if CLAUSES[clause][0] == page}
        assert kept <= set(headings), module


def test_no_heading_is_in_more_than_two_modules_of_its_page() -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for module, path in of_pages():
        page, _ = HEADINGS[module]
        for heading in {CLAUSES[clause][1] for clause in tagged(path) if CLAUSES[clause][0] == page}:
            found.setdefault((page, heading), []).append(module)
    assert {place: modules for place, modules in found.items() if len(modules) > 2} == {}


# -- the homes of the clauses -----------------------------------------------------------------------

REGISTRY = read_registry(ROOT / "docs" / "clauses.tsv")
MARKS = {
    clause: {place.partition(".py:")[0].removesuffix("/__init__") for place in places}
    for clause, places in marks_in_code(PACKAGE).items()
}
"""For each clause that is tagged, the modules that it is tagged in."""
HOMES = {row["id"]: row for row in read_tsv("clause_homes.tsv")}
"""docs/clause_homes.tsv: the clauses that are kept by a module of another page, or of none, and why."""


def modules_of(page: str) -> set[str]:
    modules = {module for module, (its_page, _) in HEADINGS.items() if its_page == page}
    packages = {module.rpartition("/")[0] for module in modules} - HEADINGS.keys()
    return modules | {package for package in packages if len({HEADINGS[m][0] for m in below(package)}) == 1}


AUTHORIZATION_PAGES = (
    "authorization_server_discovery",
    "client_registration",
    "security_considerations",
)
SHARED = {
    "api/tasks": ("basic/utilities/tasks", "extensions/tasks"),
    "api/task_calls": ("basic/utilities/tasks", "extensions/tasks"),
    "basic/utilities/tasks/behavior_requirements": ("extensions/tasks",),
    **{
        f"extras/authorization_server/{module}": tuple(
            f"basic/authorization/{page}"
            for page in ("index", "client-registration", "security-considerations")
        )
        for module in (
            *("authorization", "clients", "documents", "metadata"),
            *("pages", "proxy", "settings", "tokens"),
        )
    },
    **{
        module: tuple(
            f"basic/authorization/{page}"
            for page in ("index", *(page.replace("_", "-") for page in AUTHORIZATION_PAGES))
        )
        for module in (
            *("api/discovering", "api/oauth_client", "api/token_flow", "api/token_stores"),
            *(f"basic/authorization/{page}" for page in AUTHORIZATION_PAGES),
        )
    },
}
"""Modules that do what two pages say, each for its era: a task is one thing in both. And those of the
authorization server, which keep what the pages of authorization ask of one. Those of a client, too: until
2025-11-25 the four pages are one.
"""


def below(package: str) -> list[str]:
    return [module for module in HEADINGS if module.startswith(f"{package}/")]


def rooms(clause: Clause) -> set[str]:
    """Where a clause may be tagged.

    A page without modules of its own is an overview, or `schema`, which says of each page what its shapes
    mean: the registry names the module of each of its clauses, and that module's page is the clause's.
    """
    if modules := modules_of(clause.page):
        return modules | {module for module, pages in SHARED.items() if clause.page in pages}
    return modules_of(HEADINGS[clause.module][0]) if clause.module in HEADINGS else {clause.module}


def test_clauses_are_kept_on_their_page_or_the_exception_has_a_reason() -> None:
    outside = {}
    for name, modules in MARKS.items():
        clause = REGISTRY[name]
        at_home = rooms(clause) | (rooms(REGISTRY[clause.same]) if clause.same else set())
        if modules - at_home:
            outside[name] = modules - at_home
    assert outside == {name: set(row["module"].split()) for name, row in HOMES.items()}
    assert all(row["reason"] for row in HOMES.values())
    assert len(HOMES) < 75


def test_the_registry_names_a_module_that_keeps_the_clause() -> None:
    wrong = {name: modules for name, modules in MARKS.items() if REGISTRY[name].module not in modules}
    assert wrong == {}


def test_a_page_says_what_it_needs_of_the_other_rooms() -> None:
    """So that an editor leads from `server.tools.get` to its definition."""
    untyped = re.compile(r"\b(?:server|client|connection|context): Any\b")
    assert [module for module, path in MODULES.items() if untyped.search(path.read_text())] == []
