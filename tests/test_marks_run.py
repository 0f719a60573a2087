"""The tool of `make marks`: which statement a comment `# spec:` stands at, and who runs it."""

import subprocess
import sys
import textwrap

import clauses
import marks_run

CODE = textwrap.dedent(
    '''\
    """A module.  # spec: a/module"""
    LIMIT = 5  # spec: a/import

    class Thing:
        """A class.  # spec: a/class"""

    def first(value):
        """What it does.

        # spec: a/docstring
        """
        # spec: a/before
        if value > LIMIT:  # spec: a/test
            return (
                value,  # spec: a/inside
            )
        try:
            return len(value)
        except TypeError:
            # spec: a/handler
            return 0

    def second(value):
        return value  # spec: a/beside, a/other
    '''
)


def test_a_comment_stands_at_the_statement_beside_around_or_after_it():
    lines = dict(enumerate(CODE.splitlines(), 1))
    found = {}
    for number, needed in marks_run.statements(CODE):
        found[lines[number].partition("# spec: ")[2].strip('"').rstrip()] = [lines[n].strip() for n in needed]
    head = "if value > LIMIT:  # spec: a/test"
    assert found == {
        "a/module": [],
        "a/import": [],
        "a/class": [],
        "a/docstring": [head],
        "a/before": [head],
        "a/test": [head],
        "a/inside": ["return (", "value,  # spec: a/inside", ")"],
        "a/handler": ["return 0"],
        "a/beside, a/other": ["return value  # spec: a/beside, a/other"],
    }


def test_marks_that_their_own_tests_run_are_no_news_and_others_are(tmp_path):
    """In the process of the test and in its children; what another test runs does not count."""
    project = {
        "docs/clauses.tsv": "\t".join(clauses.Clause._fields)
        + "".join(
            f"\na/{name}\tp\ts\t2024-11-05\t\tMUST\tserver\tlibrary\tm\tDo it." for name in ("x", "y", "z")
        ),
        "mcp_ref/__init__.py": "",
        "mcp_ref/thing.py": (
            "def here():\n    return 1  # spec: a/x\n\ndef there():\n    return 2  # spec: a/y\n\n"
            "def nowhere():\n    return 3  # spec: a/z\n"
        ),
        "tests/test_thing.py": (
            "import subprocess, sys, pytest\nfrom mcp_ref import thing\n"
            "@pytest.mark.spec('a/x')\ndef test_x(): assert thing.here() == 1\n"
            "@pytest.mark.spec('a/y')\ndef test_y():\n"
            "    run = 'from mcp_ref import thing; thing.there()'\n"
            "    subprocess.run([sys.executable, '-c', run], check=True)\n"
            "@pytest.mark.spec('a/z')\ndef test_z(): pass\n"
            "def test_unmarked(): thing.nowhere()\n"
        ),
        "pytest.ini": "[pytest]\nmarkers =\n    spec: the clauses\npythonpath = .\n",
    }
    for name in ("marks_run.py", "clauses.py"):
        project[f"tests/{name}"] = (marks_run.ROOT / "tests" / name).read_text(encoding="utf-8")
    for name, text in project.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "tests/marks_run.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == [
        "mcp_ref/thing.py:8: a/z",
        "1 marked lines that no test with the same mark runs",
    ], ran.stderr
    assert ran.returncode == 1
