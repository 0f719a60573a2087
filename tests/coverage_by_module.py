"""Each module by its own test file: at least 95 % of its lines.

    python tests/coverage_by_module.py [module ...]        say mcp_ref/server/tools.py

A line that some other test happens to run proves nothing about the module's own tests, so every test
file runs alone, under coverage, and only the module of the same name is looked at. Prints a line a
module, the lines that were not run where there are too many, and exits with 1 if a module falls short.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 95.0


def modules() -> list[Path]:
    """Every module that has code of its own."""
    found = [p for p in sorted((ROOT / "mcp_ref").rglob("*.py")) if p.name != "__main__.py"]
    return [p.relative_to(ROOT) for p in found if p.name != "__init__.py" or "\ndef " in p.read_text()]


def test_of(module: Path) -> Path:
    """mcp_ref/server/tools.py -> tests/server/test_tools.py; a package's test has the package's name.

    That of the whole is tests/test_package.py.
    """
    inside = module.relative_to("mcp_ref")
    name = (inside.parent.name or "package") if inside.name == "__init__.py" else inside.stem
    return Path("tests") / inside.parent / f"test_{name}.py"


def measure(module: Path) -> tuple[Path, float, list[int], str]:
    """Percentage, lines that were not run, and what went wrong."""
    test = test_of(module)
    if not (ROOT / test).is_file():
        return module, 0.0, [], f"there is no {test}"
    with tempfile.TemporaryDirectory() as folder:
        data, report = Path(folder) / "data", Path(folder) / "report.json"
        environment = {**os.environ, "COVERAGE_FILE": str(data)}
        coverage = [sys.executable, "-m", "coverage"]
        run = subprocess.run(
            [*coverage, "run", f"--include={module}", "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
        )
        if run.returncode:
            return module, 0.0, [], f"its tests fail:\n{run.stdout[-3000:]}"
        for step in (["combine", "-q", folder], ["json", "-q", "-o", str(report), f"--include={module}"]):
            subprocess.run([*coverage, *step], cwd=ROOT, env=environment, check=True, capture_output=True)
        found = json.loads(report.read_text())["files"][str(module)]
    return module, found["summary"]["percent_covered"], found["missing_lines"], ""


def main() -> int:
    """Measure the modules named, or all."""
    wanted = [Path(name) for name in sys.argv[1:]] or modules()
    short = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for module, percent, missing, problem in pool.map(measure, wanted):
            good = percent >= LEAST
            short += not good
            lines = f"  not run: {', '.join(map(str, missing[:40]))}" if missing and not good else ""
            print(f"{percent:6.1f} %  {module}{lines} {problem}".rstrip(), flush=True)
    print(f"{len(wanted) - short} modules at {LEAST:g} % or more, {short} below")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
