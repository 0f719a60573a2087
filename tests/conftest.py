"""What holds for every test.

The mark `spec` says which clauses of docs/clauses.tsv a test proves; tests/clauses.py counts them. And Ctrl-C
and SIGHUP arrive, in this process and in its children, also where the run was started with both ignored.
"""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from mcp_ref.basic.patterns.index import requester
from mcp_ref.basic.transports.stdio import client as stdio_client
from mcp_ref.basic.transports.stdio.backward_compatibility import KNOWN_ERAS

REGISTRY = Path(__file__).resolve().parents[1] / "docs" / "clauses.tsv"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: three processes for two cores, for half of the time a test waits for what a child does."""
    return max(2, (os.cpu_count() or 1) * 3 // 2)


# On a busy machine a child may take this long to be gone, and its last words to be read.
stdio_client.EXIT_REASON_SECONDS = 5.0
requester.CLOSE_REASON_SECONDS = 11.0

# An example that takes long on a busy machine proves nothing against the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """A job in the background ignores SIGINT, one under nohup SIGHUP, and so would all children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def nothing_known_of_servers() -> Iterator[None]:
    """What one test learned of a server's era is not known to the next."""
    KNOWN_ERAS.forget()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged may have half characters, which go neither to another process nor into XML."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids that the registry does not have, and hand the others on to --junitxml.

    Refuse names of tests with an address in memory, too: no two workers of pytest-xdist would agree on them.
    """
    if nameless := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError("\n".join(f"{name}: give the test ids" for name in nameless))
    known = {line.split("\t", 1)[0] for line in REGISTRY.read_text(encoding="utf-8").splitlines()[1:]}
    unknown = []
    for item in items:
        for clause in dict.fromkeys(c for mark in item.iter_markers("spec") for c in mark.args):
            item.user_properties.append(("spec", clause))
            if clause not in known:
                unknown.append(f"{item.nodeid}: mark spec: docs/clauses.tsv has no clause {clause!r}")
    if unknown:
        raise pytest.UsageError("\n".join(unknown))
