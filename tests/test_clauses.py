"""The command `make clauses`, on small made-up trees, and the registry itself."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent


def load() -> ModuleType:
    """tests/clauses.py, under a name that is nobody else's."""
    spec = importlib.util.spec_from_file_location("mcp_ref_tests_clauses", HERE / "clauses.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load()
PAGE = "server/tools"  # one of the pages that are done

Tree = Callable[..., Path]


def line(
    name: str,
    level: str = "MUST",
    *,
    kind: str = "library",
    since: str = "2024-11-05",
    until: str = "",
    module: str = PAGE,
    page: str = PAGE,
    statement: str = "Do it.",
) -> str:
    return "\t".join([name, page, "top", since, until, level, "server", kind, module, statement])


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Make a project: `tree(lines of the registry, code of the module of PAGE, a test file, waivers)`."""

    def make(lines: Iterable[str], code: str = "", test: str = "", waivers: Iterable[str] = ()) -> Path:
        files = {
            "docs/waivers.tsv": "\n".join(["\t".join(tool.Waiver._fields), *waivers]) + "\n",
            "docs/clauses.tsv": "\n".join(["\t".join(tool.Clause._fields), *lines]) + "\n",
            f"mcp_ref/{PAGE}.py": code,
            "tests/test_it.py": f"import pytest\n\n{test}",
            "pytest.ini": "[pytest]\nmarkers =\n    spec: the clauses\n",
        }
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        shutil.copy(HERE / "conftest.py", tmp_path / "tests")
        return tmp_path

    return make


def proof(name: str, body: str = "pass") -> str:
    return f'@pytest.mark.spec("{name}")\ndef test_it():\n    {body}\n'


def static(root: Path, *more: str) -> int:
    return int(tool.main(["--no-run", *more], root))


# ------------------------------------------------------------- what is missing and what is not


def test_a_must_without_a_test_is_missing(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert static(tree([line("a/x")], "# spec: a/x")) == 1
    assert "missing: a/x\n" in capsys.readouterr().out


def test_a_must_with_a_marked_test_is_proved(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert static(tree([line("a/x")], test=proof("a/x"))) == 0
    assert "1 proved (1 without a mark in the code), 0 waived, 0 missing" in capsys.readouterr().out


def test_a_must_not_is_missing_too(tree: Tree) -> None:
    assert static(tree([line("a/x", "MUST NOT")])) == 1


@pytest.mark.parametrize("level", ["SHOULD", "SHOULD NOT", "MAY"])
def test_what_need_not_be_kept_is_never_missing(tree: Tree, level: str) -> None:
    assert static(tree([line("a/x"), line("a/y", level)], test=proof("a/x"))) == 0


@pytest.mark.parametrize("kind", ["application", "process"])
def test_what_no_library_can_keep_is_never_missing(tree: Tree, kind: str) -> None:
    assert static(tree([line("a/x"), line("a/y", kind=kind)], test=proof("a/x"))) == 0


def test_a_clause_of_an_interim_draft_is_never_missing(tree: Tree) -> None:
    draft = line("a/y", since="seed-002", until="seed-002")
    assert static(tree([line("a/x"), draft], test=proof("a/x"))) == 0


def test_a_clause_missing_elsewhere_is_shown_and_does_no_harm(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pages that are not done yet have missing clauses as soon as a module of theirs is there."""
    assert static(tree([line("a/x", page="changelog")])) == 0
    assert "missing: a/x\npages still to come: 1 clauses must" in capsys.readouterr().out


# -------------------------------------------------------------------------------- waiting


def test_a_clause_waits_for_its_module(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert static(tree([line("a/x", module="client/cache")])) == 0
    assert "0 missing, 1 waiting" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["client/cache.py", "client/cache/__init__.py"])
def test_a_clause_is_missing_once_its_module_lands(tree: Tree, path: str) -> None:
    root = tree([line("a/x", module="client/cache")])
    landed = root / "mcp_ref" / path
    landed.parent.mkdir(parents=True)
    landed.touch()
    assert static(root) == 1


def test_a_module_with_shapes_only_is_not_there_yet(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "SHAPES_ONLY", frozenset({"client/cache"}))
    root = tree([line("a/x", module="client/cache")])
    shapes = root / "mcp_ref" / "client" / "cache.py"
    shapes.parent.mkdir(parents=True, exist_ok=True)
    shapes.touch()
    assert static(root) == 0


def test_a_waiting_clause_may_be_proved_early(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert static(tree([line("a/x", module="client/cache")], test=proof("a/x"))) == 0
    assert (
        "1 proved (1 without a mark in the code), 0 waived, 0 missing, 0 waiting" in capsys.readouterr().out
    )


# ------------------------------------------------------------------------------ the same


def test_a_repeated_clause_is_not_counted_twice(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line("a/x"), line("b/x", statement="Do it. [same: a/x]")]
    assert static(tree(lines, test=proof("a/x"))) == 0
    assert "pages that are done: 1 clauses must be kept: 1 proved" in capsys.readouterr().out


def test_a_mark_of_a_repeated_clause_counts_for_the_one_it_repeats(tree: Tree) -> None:
    lines = [line("a/x"), line("b/x", statement="Do it. [same: a/x]")]
    assert static(tree(lines, test=proof("b/x"))) == 0


# --------------------------------------------------------------------------- the waivers


def waiver(name: str, revisions: str = "", reason: str = "Because.", seen: str = "Nothing.") -> str:
    return "\t".join([name, revisions, reason, seen])


def test_a_waived_clause_is_neither_missing_nor_proved(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line("a/x", since="2026-07-28"), line("a/y", "SHOULD", since="2026-07-28")]
    assert static(tree(lines, waivers=[waiver("a/x"), waiver("a/y")])) == 0
    out = capsys.readouterr().out
    assert "1 clauses must be kept: 0 proved (0 without a mark in the code), 1 waived, 0 missing" in out
    assert out.splitlines()[1].split() == [PAGE, "2026-07-28", "2", "0", "0", "2", "0", "0"]


def test_what_is_waived_in_one_revision_must_be_proved_in_the_others(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, waived = [line("a/x", since="2025-11-25")], [waiver("a/x", "2025-11-25")]
    assert static(tree(lines, waivers=waived)) == 1
    assert "missing: a/x" in capsys.readouterr().out
    assert static(tree(lines, "# spec: a/x", proof("a/x"), waived)) == 0
    rows = [row.split()[-7:] for row in capsys.readouterr().out.splitlines()[1:3]]
    assert rows == [
        ["2025-11-25", "1", "0", "0", "1", "0", "0"],
        ["2026-07-28", "1", "1", "1", "0", "0", "0"],
    ]


@pytest.mark.parametrize(
    ("waived", "fault"),
    [
        (waiver("a/z"), "a/z: the registry has no such clause"),
        (waiver("b/x"), "b/x: only a clause of its own that a library can keep is waived"),
        (waiver("a/app"), "a/app: only a clause of its own that a library can keep is waived"),
        (waiver("a/x", "2025-13-99"), "a/x: it does not hold in all of 2025-13-99"),
        (waiver("a/x", reason=" "), "a/x: a waiver has a reason, and says what a user sees"),
        (waiver("a/x", seen=""), "a/x: a waiver has a reason, and says what a user sees"),
        ("a/x", "a/x: a waiver has a reason, and says what a user sees"),
    ],
)
def test_a_faulty_waiver_is_an_error(
    tree: Tree, waived: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        line("a/x", "MAY"),
        line("b/x", "MAY", statement="Do it. [same: a/x]"),
        line("a/app", kind="application"),
    ]
    assert static(tree(lines, waivers=[waived])) == 1
    assert capsys.readouterr().err == f"waiver: {fault}\n"


def test_a_clause_that_is_waived_twice_is_an_error(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert static(tree([line("a/x")], waivers=[waiver("a/x"), waiver("a/x")])) == 1
    assert capsys.readouterr().err == "waiver: a/x: it is waived twice\n"


@pytest.mark.parametrize("marked", ["a/x", "b/x"])
def test_a_test_that_marks_a_waived_clause_is_an_error(
    tree: Tree, marked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line("a/x"), line("b/x", statement="Do it. [same: a/x]")]
    assert static(tree(lines, test=proof(marked), waivers=[waiver("a/x")])) == 1
    assert capsys.readouterr().err == "marked but waived: test_it.py::test_it: a/x\n"


def test_code_that_says_to_keep_a_waived_clause_is_an_error(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    assert static(tree([line("a/x")], "# spec: a/x", waivers=[waiver("a/x")])) == 1
    assert capsys.readouterr().err == f"marked but waived: {PAGE}.py:1: a/x\n"


def test_a_project_without_waivers_has_none(tree: Tree) -> None:
    root = tree([line("a/x")], test=proof("a/x"))
    (root / "docs" / "waivers.tsv").unlink()
    assert static(root) == 0


# ----------------------------------------------------------------------------- the marks


def test_several_ids_may_share_a_comment_in_code_and_in_docstrings(tree: Tree) -> None:
    code = 'def f():\n    """Do it.  # spec: a/x, a/y"""\n    return 1  # spec: a/x  (and why)\n'
    root = tree([line("a/x"), line("a/y")], code)
    assert tool.marks_in_code(root / "mcp_ref") == {
        "a/x": [f"{PAGE}.py:2", f"{PAGE}.py:3"],
        "a/y": [f"{PAGE}.py:2"],
    }


def test_marks_are_found_on_functions_classes_parameters_and_files(tree: Tree) -> None:
    test = """
pytestmark = pytest.mark.spec("a/file")
@pytest.mark.spec("a/class")
class TestIt:
    @pytest.mark.spec("a/one", "a/two")
    @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.spec("a/case"))])
    def test_it(self, n): pass
"""
    assert tool.marks_in_tests(tree([], test=test) / "tests") == {
        "a/file": ["test_it.py"],
        "a/class": ["test_it.py::TestIt"],
        "a/one": ["test_it.py::TestIt::test_it"],
        "a/two": ["test_it.py::TestIt::test_it"],
        "a/case": ["test_it.py::TestIt::test_it"],
    }


def test_an_unknown_id_in_the_code_is_an_error(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert static(tree([line("a/x", "MAY")], "# spec: a/z")) == 1
    assert f"unknown id: {PAGE}.py:1: a/z" in capsys.readouterr().err


def test_an_unknown_id_in_a_test_is_an_error(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert static(tree([line("a/x", "MAY")], test=proof("a/z"))) == 1
    assert "unknown id: test_it.py::test_it: a/z" in capsys.readouterr().err


def test_an_id_that_is_there_twice_is_an_error(tree: Tree) -> None:
    with pytest.raises(ValueError, match="a/x is there twice"):
        static(tree([line("a/x"), line("a/x")]))


# -------------------------------------------------------------------------- the outcomes


def test_a_test_that_passes_proves(tree: Tree) -> None:
    assert tool.main([], tree([line("a/x")], test=proof("a/x"))) == 0


@pytest.mark.parametrize("body", ["assert False", "pytest.skip()"])
def test_a_test_that_does_not_pass_proves_nothing(
    tree: Tree, body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main([], tree([line("a/x")], test=proof("a/x", body))) == 1
    assert "missing: a/x" in capsys.readouterr().out


def test_one_failing_case_unproves_the_clause(tree: Tree) -> None:
    test = '@pytest.mark.parametrize("n", [1, 2])\n' + proof("a/x", "assert n == 1").replace("()", "(n)")
    root = tree([line("a/x", "MAY")], test=test)
    assert tool.main([], root) == 1


def test_no_marked_test_is_no_fault_of_its_own(tree: Tree) -> None:
    assert tool.main([], tree([line("a/x", "MAY")])) == 0


def test_outcomes_of_an_earlier_run_are_taken(tree: Tree) -> None:
    root = tree([line("a/x")], test=proof("a/x"))
    run_pytest(root, "--junitxml=results.xml")
    assert tool.main(["--results", str(root / "results.xml")], root) == 0


def test_a_suite_that_cannot_be_imported_is_told(tree: Tree) -> None:
    assert tool.main([], tree([line("a/x", "MAY")], test="import there_is_no_such_module\n")) == 1


def test_a_suite_that_cannot_be_started_is_told(tree: Tree) -> None:
    root = tree([line("a/x", "MAY")])
    (root / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    with pytest.raises(SystemExit, match="pytest ended with 4"):
        tool.main([], root)


# ---------------------------------------------------------------------------- the output


def test_the_table_has_a_line_per_page_and_revision(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        line("a/x", since="2025-06-18", until="2025-11-25"),
        line("a/y", since="2025-11-25", module="client/cache"),
        line("a/z", "MAY", since="2025-11-25"),
    ]
    static(tree(lines, "# spec: a/x, a/z", proof("a/z")))
    table = [row.split() for row in capsys.readouterr().out.split("\n\n")[0].splitlines()]
    assert table == [
        list(tool.Count._fields),
        [PAGE, "2025-06-18", "1", "1", "0", "0", "1", "0"],
        ["2025-11-25", "3", "2", "1", "0", "1", "1"],
        ["2026-07-28", "2", "1", "1", "0", "0", "1"],
    ]


def test_missing_lists_the_statements(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    static(tree([line("a/x", statement="Fly.")]), "--missing")
    assert capsys.readouterr().out.startswith(f"a/x\n    server MUST: Fly. ({PAGE})\n")


def test_one_page_may_be_asked_for(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    root = tree([line("a/x"), line("b/x", "MAY", page="server/discover")])
    assert static(root, "--page", "server/discover") == 0
    assert "a/x" not in capsys.readouterr().out


def test_a_page_that_is_none_is_told(tree: Tree) -> None:
    with pytest.raises(SystemExit, match="no page server/odd; there are server/tools"):
        static(tree([line("a/x")]), "--page", "server/odd")


def test_the_table_comes_as_rst_too(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    static(tree([line("a/x", since="2026-07-28")]), "--format", "rst")
    out = capsys.readouterr().out
    assert out.startswith(".. csv-table::\n   :header: page, revision")
    assert out.endswith(f"\n\n   {PAGE}, 2026-07-28, 1, 0, 0, 0, 1, 0\n")


# -------------------------------------------------------------------------- the conftest


def run_pytest(root: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", "tests", *more]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)


def test_an_unknown_id_in_a_mark_stops_the_test_run(tree: Tree) -> None:
    run = run_pytest(tree([line("a/x")], test=proof("a/z")))
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "tests/test_it.py::test_it: mark spec: docs/clauses.tsv has no clause 'a/z'" in run.stderr


# -------------------------------------------------------------------------- the registry

CLAUSES = tool.read_registry(tool.ROOT / "docs" / "clauses.tsv")


def test_the_registry_is_well_formed() -> None:
    faults = [f"{clause.id}: {fault}" for clause in CLAUSES.values() for fault in faults_of(clause)]
    assert not faults, "\n".join(faults)


def faults_of(clause: tool.Clause) -> Iterable[str]:
    drafts = ("seed-002", "seed-003")
    if clause.level not in tool.LEVELS or clause.kind not in tool.KINDS:
        yield f"level {clause.level!r}, kind {clause.kind!r}"
    if clause.since not in (*tool.REVISIONS, *drafts) or clause.until not in ("", *tool.REVISIONS, *drafts):
        yield f"holds from {clause.since!r} until {clause.until!r}"
    if clause.until and clause.until < clause.since:
        yield "ends before it begins"
    if not re.fullmatch(r"[a-z_]+(/[a-z_]+)*", clause.module):
        yield f"module {clause.module!r}"
    if not clause.id.startswith(clause.page + "/") or not clause.statement or not clause.party:
        yield "id, party or statement"
    if clause.same is not None and (clause.same not in CLAUSES or CLAUSES[clause.same].same):
        yield f"repeats {clause.same}, which is no clause of its own"


def test_every_page_that_is_done_has_clauses() -> None:
    assert set(tool.PAGES) <= {clause.page for clause in CLAUSES.values()}


def test_a_module_of_shapes_only_exists() -> None:
    """So that SHAPES_ONLY is not forgotten when a module moves."""
    assert [m for m in tool.SHAPES_ONLY if not (tool.ROOT / "mcp_ref" / f"{m}.py").is_file()] == []
