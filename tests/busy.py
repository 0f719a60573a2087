"""The suite on a busy machine: as many processes that only count as there are cores, beside it.

    python tests/busy.py                      # once, all of it
    python tests/busy.py --runs 10            # ten times; the tests that failed in any run are listed
    python tests/busy.py -- tests/runtime     # what follows `--` is for pytest

A test that fails so, and not on a quiet machine, is a fault: of the code, which decides by the clock what
it should decide by what happened, or of the test, which waits for a while instead of for an event.

The busy processes end with the run, and by themselves when it dies or takes longer than an hour.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_RUN_SECONDS = 3600

COUNT = """
import os, sys, time
parent, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while time.monotonic() < end and os.getppid() == parent:
    sum(range(100_000))
"""


def main() -> int:
    """Run, and say what failed how often; 1 if anything did."""
    parser = argparse.ArgumentParser(prog="python tests/busy.py", description="the suite on a busy machine")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("pytest", nargs="*", help="what pytest is given")
    options = parser.parse_args()
    failures: collections.Counter[str] = collections.Counter()
    for number in range(1, options.runs + 1):
        began = time.monotonic()
        code, failed = run(options.pytest)
        failures.update(failed)
        print(f"run {number}: pytest's exit code {code}, {time.monotonic() - began:.0f} s", flush=True)
        print("".join(f"    {name}\n" for name in failed), end="", flush=True)
        if code not in (0, 1):
            return code
    for name, times in failures.most_common():
        print(f"failed in {times} of {options.runs} runs: {name}")
    return 1 if failures else 0


def run(arguments: list[str]) -> tuple[int, list[str]]:
    """One run: pytest's exit code, and the tests that failed."""
    command = [sys.executable, "-c", COUNT, str(os.getpid()), str(MAX_RUN_SECONDS)]
    busy = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder, "results.xml")
            pytest = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]
            options = ["-p", "no:cacheprovider", f"--junitxml={results}", *arguments]
            code = subprocess.run([*pytest, *options], cwd=ROOT, timeout=MAX_RUN_SECONDS).returncode
            return code, failed_in(results) if results.is_file() else []
    finally:
        for process in busy:
            process.kill()
            process.wait()


def failed_in(results: Path) -> list[str]:
    """The tests that failed, or could not be set up or cleaned up after."""
    cases = xml.etree.ElementTree.parse(results).getroot().iter("testcase")
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return [f"{case.get('classname')}::{case.get('name')}" for case in bad]


if __name__ == "__main__":
    sys.exit(main())
