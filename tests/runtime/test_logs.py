"""runtime/logs: a peer's text forges no line of the log."""

import io
import logging
import pathlib

import pytest

import mcp_ref
from mcp_ref import ErrorResponse
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.untrusted_text import one_line

FORGED = "no\n2026-01-01 ERROR mcp_ref.client: all is lost\r\x1b[2J\x85\u2028"


@pytest.fixture
def written():
    """What a handler as of `logging.basicConfig` writes of the records of this file."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logger("mcp_ref.tests.logs")
    log.addHandler(handler)
    log.propagate = False
    yield log, stream.getvalue
    log.propagate = True
    log.removeHandler(handler)


def test_a_record_is_one_line(written):
    log, text = written
    log.warning("the server said %s and %d", FORGED, 7)
    assert text() == (
        r"WARNING the server said no\n2026-01-01 ERROR mcp_ref.client: all is lost\r\x1b[2J\x85\u2028 and 7"
        + "\n"
    )


def test_what_can_be_printed_stays_as_it_is(written):
    log, text = written
    log.warning("100%% of %s: %r", "Zoë, 東京", "a\nb")
    log.warning("100%")
    assert text() == "WARNING 100% of Zoë, 東京: 'a\\nb'\nWARNING 100%\n"


def test_no_line_of_a_traceback_looks_like_a_record(written):
    log, text = written
    try:
        raise ValueError(FORGED)
    except ValueError as problem:
        log.error("it failed", exc_info=problem)
    lines = text().splitlines()
    assert lines[0] == "ERROR it failed"
    assert all(line.startswith("  ") for line in lines[1:])
    assert any("Traceback" in line for line in lines) and any("all is lost" in line for line in lines)
    assert "\x1b" not in text()


def test_a_record_that_cannot_be_formatted_is_left_to_logging():
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "%d", ("x",), None)
    assert logger("mcp_ref.tests.logs").filter(record)
    assert (record.msg, record.args) == ("%d", ("x",))


def test_a_logger_is_made_once():
    assert logger("mcp_ref.tests.logs") is logger("mcp_ref.tests.logs")
    assert len(logger("mcp_ref.tests.logs").filters) == 1


def test_every_logger_of_the_package_is_made_so():
    for path in pathlib.Path(mcp_ref.__file__).parent.rglob("*.py"):
        if path.name != "logs.py":
            assert 'getLogger("mcp_ref' not in path.read_text(), path


def test_an_error_of_a_peers_is_one_line_and_its_message_stays_exact():
    problem = ErrorResponse(-32000, FORGED)
    assert str(problem).isprintable() and "all is lost" in str(problem)
    assert problem.message == FORGED


def test_a_text_on_one_line():
    assert one_line("plain é") == "plain é"
    assert one_line("a\tb\n\udc80") == r"a\tb\n\udc80"
