"""`python -m mcp_ref.examples`: in the repository, and from a wheel in an environment of its own."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from peers import PATIENCE, ROOT

from mcp_ref import connect
from mcp_ref.examples import FILES, examples, main

EXAMPLES = Path(ROOT, "docs", "examples")


def test_the_list_has_every_example_and_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    lines = dict(line.split(maxsplit=1) for line in said.partition("\n\n")[0].splitlines())
    files = {path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in EXAMPLES.rglob("*.py")}
    assert set(lines) == files == set(examples())
    assert lines["echo"].startswith("Echo: ")
    assert str(EXAMPLES) in said
    assert next(iter(examples())).startswith("first_hour/")


def test_there_is_no_second_copy() -> None:
    assert FILES.is_symlink()
    assert FILES.resolve() == EXAMPLES
    assert main(["--help"]) == 0


def test_an_unknown_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert "no example 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["three_servers", "first_hour/three_server.py", "first/three_servers"])
def test_the_nearest_name_is_suggested(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert "did you mean first_hour/three_servers? python -m" in capsys.readouterr().err


def test_a_reader_of_the_list_that_goes_away_is_exit_code_141_without_a_word() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "mcp_ref.examples"]
    with subprocess.Popen(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE) as child:
        os.close(writing)
        assert child.communicate(timeout=PATIENCE)[1] == b""
    assert child.returncode == 141


def test_what_is_left_of_the_list_goes_nowhere_when_its_reader_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(*words: object, **more: object) -> None:
        raise BrokenPipeError

    replaced: list[int] = []
    with monkeypatch.context() as patch:  # pytest needs both itself
        patch.setattr("builtins.print", gone)
        patch.setattr(os, "dup2", lambda nowhere, number: (os.close(nowhere), replaced.append(number)))
        assert main([]) == 141
    assert replaced == [1]


def test_an_example_takes_the_place_of_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    became: list[tuple[list[str], Path]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: became.append((words, Path.cwd())))
    monkeypatch.chdir(tmp_path)
    main(["sqlite_server.py", "a.db"])
    monkeypatch.setattr(sys, "argv", ["examples", "first_hour/confirmation"])
    main()
    server, confirmation = EXAMPLES / "sqlite_server.py", EXAMPLES / "first_hour" / "confirmation.py"
    assert became == [
        ([sys.executable, str(server), "a.db"], tmp_path),
        ([sys.executable, str(confirmation)], confirmation.parent),
    ]


def test_the_module_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["examples", "nothing"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("mcp_ref.examples", run_name="__main__")
    assert ended.value.code == 2


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a new environment with a wheel of this tree in it, and what the package depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, home = folder / "tree", folder / "home"
    ignored = shutil.ignore_patterns("__pycache__", "*.out", "_build")
    for part in ("mcp_ref", "docs/examples"):
        shutil.copytree(Path(ROOT, part), tree / part, symlinks=True, ignore=ignored)
    for part in ("setup.cfg", "pyproject.toml", "README.rst", "LICENSE"):
        shutil.copy(Path(ROOT, part), tree / part)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, tree])
    shutil.rmtree(tree)
    venv.create(home, symlinks=True)
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "needed.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages"))
    )
    python = str(home / "bin" / "python")
    _run([*pip, "--python", python, "install", "--no-deps", "--no-index", next(folder.glob("*.whl"))])
    return python


def _run(command: list[object], cwd: Path | None = None) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_wheel_has_the_examples_and_runs_them(installed: str, tmp_path: Path) -> None:
    command = [installed, "-W", "error", "-m", "mcp_ref.examples"]
    listed = _run([*command], tmp_path)
    assert {line.split()[0] for line in listed.partition("\n\n")[0].splitlines()} == set(examples())
    assert str(Path(installed).parents[1]) in listed  # its own files, not those of the repository
    for name in ("echo", "quickstart_client", "first_hour/three_servers"):
        said = _run([*command, name], tmp_path)
        if (out := EXAMPLES / f"{name}.out").exists():
            assert said == out.read_text()
    with connect([*command, "first_hour/sqlite_server", str(tmp_path / "books.db")]) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["find", "add"]
