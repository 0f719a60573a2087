"""The arguments of `mcp-ref`, and what its exit codes mean.

0    done
1    the tool says that it failed, or its task was cancelled elsewhere
2    the command line is wrong
3    the server refused, or its answer is invalid: a protocol error, or no MCP server at that URL
4    no connection: the server cannot be started, is gone, or does not have what is needed
5    no answer in time; for `listen`, fewer changes than `--count` within the time of `--for`
129  the terminal was closed
130  interrupted (Ctrl-C); what was running was cancelled on the wire, or is a task that was left running
141  the reader of our output went away
143  ended by SIGTERM
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from mcp_ref import __version__
from mcp_ref.basic.index.error_responses import ErrorResponse, HttpError
from mcp_ref.cli import actions, login
from mcp_ref.cli.servers import take_server
from mcp_ref.runtime.errors import InvalidResponse, McpError, RequestCancelled, RequestTimeout
from mcp_ref.runtime.untrusted_text import plain
from mcp_ref.schema import REVISIONS
from mcp_ref.server.tools import CallRefused

__all__ = ["main"]

_LISTEN_ADDRESS = re.compile(r"((?P<host>[^:\[\]\s]+):|\[(?P<six>[^\[\]\s]+)\]:)?(?P<port>[0-9]{1,5})")


_EXIT_CODES: dict[type[BaseException], int] = {
    KeyboardInterrupt: 130,
    **dict.fromkeys((ValueError, TypeError, ImportError, CallRefused), 2),
    **dict.fromkeys((ErrorResponse, InvalidResponse), 3),
    RequestCancelled: 1,
    RequestTimeout: 5,
    HttpError: 3,
    **dict.fromkeys((McpError, OSError), 4),
}
"""The exit code for each kind of exception: that of the first entry that the exception is an instance of."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if arguments is None:
        _install_signal_handlers()
    options = _parse(list(sys.argv[1:] if arguments is None else arguments))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character the encoding lacks must not raise
    try:
        code: int = options.action(options) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the last flush of stdout must not fail again
        return 141
    except tuple(_EXIT_CODES) as problem:
        return _report(problem)


def _report(problem: BaseException) -> int:
    """Print an error and return its exit code. An exception without an exit code is raised again."""
    code = next((code for kind, code in _EXIT_CODES.items() if isinstance(problem, kind)), None)
    if code is None:
        raise problem
    _print_problem(problem)
    return code


def _install_signal_handlers() -> None:
    """Have SIGTERM and SIGHUP raise SystemExit, so that what is open is closed and the terminal restored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # `nohup` has SIGHUP ignored: leave it so
            signal.signal(number, _exit)


def _exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _print_problem(problem: BaseException) -> None:
    text = str(problem)
    if isinstance(problem, KeyboardInterrupt):
        text = text or "interrupted"
    elif isinstance(problem, ErrorResponse):
        text = f"the server refused: {problem}"
    if isinstance(problem, HttpError) and problem.status == 401:
        text += f"\nto log in: mcp-ref login {shlex.quote(problem.url)}; then the same command with --auth"
    # Much of the text is the server's: its further lines are indented, so that none can pose as ours.
    print(f"mcp-ref: {plain(text)}".replace("\n", "\n  "), file=sys.stderr)


def _parse(arguments: list[str]) -> argparse.Namespace:
    """The options. What follows the first `--` is the server's command, and is not parsed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _parser()
    if arguments[:1] == ["serve"]:
        if end < len(arguments):
            parser.error("serve takes no --: the options stand beside the target")
        return parser.parse_args(arguments)
    options, rest = parser.parse_known_args(arguments[:end])
    try:
        take_server(options, rest, arguments[end + 1 :] if end < len(arguments) else None)
    except (ValueError, TypeError, McpError) as problem:
        parser.error(plain(str(problem)))
    if not options.server and options.config is None:
        parser.error(
            "name the server, as the last words: a URL such as http://127.0.0.1:8000/mcp, a file such as "
            "server.py, or a command behind --, such as -- python server.py"
        )
    return options


def _shell(options: argparse.Namespace) -> int:
    """Run the commands that a person types, or the lines of stdin."""
    from mcp_ref.cli.shell import Shell  # start-up time

    parser = _ShellParser(prog="", usage=":help lists what can be said here", add_help=False)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_commands(commands, _shell_common(options.json), None)

    def parse(words: Sequence[str], known: argparse.Namespace) -> argparse.Namespace:
        found, rest = parser.parse_known_args(words, argparse.Namespace(**vars(known)))
        if hasattr(found, "arguments"):  # argparse leaves those that follow an option in `rest`
            found.arguments += [word for word in rest if not word.startswith("-")]
            rest = [word for word in rest if word.startswith("-")]
        if rest:
            raise ValueError(f"unrecognized argument {rest[0]:.80}")
        return found

    has_terminal = actions.has_terminal()
    return Shell(options, parse, _report, list(commands.choices), has_terminal=has_terminal).run()


class _ShellParser(argparse.ArgumentParser):
    """A parser that raises ValueError for a wrong line, where argparse would end the program."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcp-ref",
        description="Serve a server, or look at one and call it.",
        epilog="Exit codes: 0 done, 1 the tool failed, 2 misuse, 3 refused by the server, "
        "4 no connection, 5 no answer in time, 130 interrupted, 141 output closed, 143 ended.",
    )
    parser.add_argument("--version", action="version", version=f"mcp-ref {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    _serve(commands.add_parser("serve", help="serve a Server over stdio, or over HTTP"))
    _add_commands(commands, _common(), "URL | FILE.py | --config FILE [NAME] | -- COMMAND ...")
    return parser


def _add_commands(commands: Any, common: argparse.ArgumentParser, server: str | None) -> None:
    """Add the commands that talk to a server.

    `server` is how their usage names it; None in a shell, which is connected to one already.
    """

    def command(
        name: str, action: object, text: str, words: str = "", *more: Any, place: str | None = server
    ) -> argparse.ArgumentParser:
        before = name if server is None else f"mcp-ref {name}"
        usage = " ".join(word for word in (before, "[options]", words, place) if word)
        found: argparse.ArgumentParser = commands.add_parser(
            name, help=text, parents=[common, *more], usage=usage
        )
        found.set_defaults(action=action)
        return found

    running = argparse.ArgumentParser(add_help=False) if server is None else _running()
    if server is not None:
        command("shell", _shell, "any of these commands, one after another, over one connection", "", running)
    command("discover", actions.discover, "what a server is and can do")
    command("tools", actions.tools, "the tools of a server")
    command("resources", actions.resources, "its resources, and the templates for others")
    command("prompts", actions.prompts, "its prompts")
    command("ping", actions.ping, "whether a server answers, and how fast")
    call = command("call", actions.call, "call a tool", "TOOL [NAME=VALUE ...]", running)
    call.add_argument("tool", help="the tool's name")
    call.add_argument(
        "arguments", nargs="*", metavar="NAME=VALUE", help="JSON, or text where the tool wants a string"
    )
    call.add_argument("--arguments", dest="whole", metavar="JSON", help="all arguments as one JSON object")
    call.add_argument("--task", action="store_true", help="call it as a task, and follow that")
    call.add_argument(
        "--ttl", type=_seconds, metavar="SECONDS", help="how long the server is to keep the task"
    )
    _tasks(command("tasks", actions.tasks, "tasks of a server, or one of them", "", running))
    read = command("read", actions.read, "read a resource", "URI", running)
    read.add_argument("uri", metavar="URI", help="the resource's URI")
    read.add_argument("--output", metavar="FILE", help="write it there, byte for byte; - is stdout")
    prompt = command("prompt", actions.prompt, "get a prompt", "NAME [ARGUMENT=VALUE ...]", running)
    prompt.add_argument("name", metavar="NAME", help="the prompt's name")
    prompt.add_argument("arguments", nargs="*", metavar="ARGUMENT=VALUE", help="text")
    if server is not None:
        at_url = "URL | --config FILE NAME"
        _login(command("login", login.login, "get tokens for a server at a URL, and keep them", place=at_url))
        command("logout", login.logout, "forget the tokens for a server at a URL", place=at_url)
    _complete(command("complete", actions.complete, "what an argument could be", "ARGUMENT [VALUE]"))
    _listen(command("listen", actions.listen, "print changes as they come, a line each", "[URI ...]"))


def _serve(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("target", help="module:name or path/to/file.py:name; the name is 'server' by default")
    serve.add_argument(
        "--http",
        type=_address,
        metavar="[HOST:]PORT",
        help="over HTTP, at /mcp; the host is 127.0.0.1 by default",
    )
    serve.add_argument("--log", action="store_true", help="over HTTP: a line for each request, on stderr")
    serve.set_defaults(action=actions.serve)


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config", metavar="FILE", help="have the name of a server in this file of mcpServers for the server"
    )
    common.add_argument("--json", action="store_true", help="print JSON, for scripts")
    common.add_argument("--revision", choices=REVISIONS, help="insist on this revision")
    common.add_argument("--timeout", type=_seconds, default=30.0, help="seconds to wait for an answer (30)")
    common.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the server"
    )
    common.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header for a server at a URL",
    )
    common.add_argument(
        "--auth", action="store_true", help="send the tokens of mcp-ref login to a server at a URL"
    )
    common.add_argument("--quiet", action="store_true", help="drop what the server writes to stderr")
    return common


def _shell_common(in_json: bool) -> argparse.ArgumentParser:
    """The common options that a command also has in a shell."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", default=in_json, help="print JSON, for scripts")
    return common


def _address(text: str) -> tuple[str, int]:
    """The host and the port of `8000`, `localhost:8000` or `[::1]:8000`."""
    found = _LISTEN_ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is not [HOST:]PORT, such as localhost:8000")
    return found["host"] or found["six"] or "127.0.0.1", int(found["port"])


def _running() -> argparse.ArgumentParser:
    """The options of commands during which a server may send log messages and ask for roots."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--log-level", help="show the server's log messages from this level on")
    options.add_argument(
        "--root", action="append", metavar="DIR", help="a directory that the work is about; may be repeated"
    )
    return options


def _login(command: argparse.ArgumentParser) -> None:
    command.add_argument("--client-id", metavar="ID", help="of a client that is registered already")
    command.add_argument("--client-secret-file", metavar="FILE", help="where its secret is")
    command.add_argument("--client-metadata-url", metavar="URL", help="the https URL that describes a client")
    command.add_argument(
        "--scope", action="append", metavar="SCOPE", help="ask for this scope; may be repeated"
    )
    command.add_argument(
        "--paste", action="store_true", help="open no browser here: the person pastes the last URL"
    )


def _tasks(command: argparse.ArgumentParser) -> None:
    command.add_argument("--id", metavar="ID", help="show this task, and not the list")
    then = command.add_mutually_exclusive_group()
    then.add_argument("--wait", action="store_true", help="wait for its result, and print that")
    then.add_argument("--cancel", action="store_true", help="cancel it")


def _complete(command: argparse.ArgumentParser) -> None:
    of = command.add_mutually_exclusive_group(required=True)
    of.add_argument("--prompt", metavar="NAME", help="of this prompt")
    of.add_argument("--resource", metavar="TEMPLATE", help="of this template, as the server writes it")
    command.add_argument("argument", metavar="ARGUMENT", help="the argument, or the variable")
    command.add_argument("value", metavar="VALUE", nargs="?", default="", help="what was typed so far")
    command.add_argument(
        "--with",
        dest="chosen",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another argument that was chosen already; may be repeated",
    )


def _listen(command: argparse.ArgumentParser) -> None:
    command.add_argument("uris", nargs="*", metavar="URI", help="print changes of this resource")
    for kind in ("tools", "prompts", "resources"):
        command.add_argument(f"--{kind}", action="store_true", help=f"print changes of the list of {kind}")
    command.add_argument("--count", type=_count, metavar="N", help="end after N changes")
    command.add_argument(
        "--for", dest="seconds", type=_seconds, metavar="SECONDS", help="end after this time"
    )


def _count(text: str) -> int:
    if re.fullmatch("0*[1-9][0-9]{0,8}", text) is None:
        raise argparse.ArgumentTypeError(f"it must be a number above 0, not {text!r:.80}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"it must be a number of seconds above 0, not {text!r:.80}")
    return value
