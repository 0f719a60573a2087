"""Sphinx: how these pages are built. `make docs` builds them, with warnings as errors."""

import ast
import inspect
import re
import sys
import textwrap
import typing
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import mcp_ref  # noqa: E402 - from the tree around this file
import mcp_ref.api.requests  # noqa: E402
import mcp_ref.api.task_calls  # noqa: E402
import mcp_ref.api.tasks  # noqa: E402

# Only the type checker imports it there; without it none of the hints beside it can be read.
for module in (mcp_ref.api.tasks, mcp_ref.api.task_calls):
    module.Asker = mcp_ref.api.requests.Asker

project = "mcp_ref"
author = "the authors of mcp_ref"
copyright = author
version = release = mcp_ref.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.viewcode",
    "clauses",
    "facts",
    "machines",
]
exclude_patterns = ["_build", "_ext", "examples", "bench_table.rst"]
default_role = "literal"
smartquotes = False
nitpicky = False

html_theme = "alabaster"
html_theme_options = {
    "description": "The Model Context Protocol, to be read beside its specification",
    "page_width": "1100px",
    "sidebar_width": "250px",
    "fixed_sidebar": True,
}
html_static_path = ["_static"]
html_css_files = ["mcp_ref.css"]

autodoc_default_options = {"members": True, "ignore-module-all": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

# ------------------------------------------------ docstrings, which are written for the editor

SPEC = re.compile(r"#\s*spec:\s*(.+)$")


def as_rst(lines):
    """A docstring of ours as reStructuredText.

    Paragraphs stay; what is indented or set in columns is shown as it stands; a line `# spec: ...`
    becomes a line that names the clauses.
    """
    kept, clauses = [], []
    for line in lines:
        mark = SPEC.search(line)
        if mark:
            clauses += [name.strip() for name in mark.group(1).split(",") if name.strip()]
            line = line[: mark.start()].rstrip()
            if not line.strip():
                continue
        kept.append(line)
    done = []
    for block in blocks(kept):
        if is_figure(block):
            done += ["::", "", *("    " + line for line in block), ""]
        else:
            done += [*quoted("\n".join(block)).split("\n"), ""]
    if clauses:
        done += ["Keeps " + ", ".join(f"``{name}``" for name in clauses) + ".", ""]
    return done


def quoted(text):
    """Names stand between single backticks in our docstrings; a backtick on its own is just one."""
    return "".join(
        f"``{part.strip()}``" if number % 2 else part.replace("`", "\\`")
        for number, part in enumerate(re.split(r"`([^`]+)`", text))
    )


def blocks(lines):
    """Paragraphs; one that is set in columns goes on over blank lines while the next one is too."""
    found = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    joined = []
    for block in filter(None, found):
        if joined and is_figure(block) and is_figure(joined[-1]):
            joined[-1] += ["", *block]
        else:
            joined.append(block)
    return joined


def is_figure(block):
    """Whether spaces mean something here: a table, a drawing, code."""
    return any(re.search(r"^\s|\S {3,}\S|^>>> ", line) for line in block if line)


def shape(obj):
    """The fields of a message's shape, as its module writes them, and what its docstring says."""
    source = inspect.getsource(sys.modules[obj.__module__])
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == obj.__name__:
            said = ast.get_docstring(node) or ""
            first = node.body[0].end_lineno if said else node.body[0].lineno - 1
            fields = "\n".join(source.splitlines()[first : node.end_lineno])
            return as_rst(said.splitlines()) + code(textwrap.dedent(fields))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == obj.__name__:
            return code(ast.get_source_segment(source, node))  # its fields are no identifiers
    return []


def code(text):
    return [".. code-block:: python", "", *("    " + line for line in text.strip().splitlines()), ""]


def process_docstring(app, what, name, obj, options, lines):
    lines[:] = shape(obj) if typing.is_typeddict(obj) else as_rst(lines)


def setup(app):
    app.connect("autodoc-process-docstring", process_docstring)
