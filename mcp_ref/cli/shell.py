"""`mcp-ref shell`: the commands of `mcp-ref`, one after another, over one connection.

    demo> tools                         any command, without its server and the options about that
    demo> call add a=1 b=2
    demo> :wire                         show each message that crosses the wire, or stop showing them
    demo> :revision 2025-11-25          connect again, with this revision
    demo> :help

Tab completes commands, names of tools and prompts, URIs, names of arguments, and their values where the
schema of the tool lists them or the server completes them. Ctrl-C ends what runs, Ctrl-D the shell. If stdin
is not a terminal, it is read line by line, without a prompt; then the exit code is that of the last line.

Threads     main reads and runs; what crosses the wire is shown by the thread that sends or reads it.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from mcp_ref.api.client import Client
from mcp_ref.api.connect import connect
from mcp_ref.cli import show, terminal
from mcp_ref.cli.login import auth_of
from mcp_ref.cli.servers import target
from mcp_ref.runtime.errors import McpError
from mcp_ref.schema import REVISIONS

__all__ = ["Completer", "Shell"]

OWN = {
    ":help": "list what can be said here",
    ":wire": "show each message that crosses the wire, or no more",
    ":revision": "say which revision is spoken, or connect again with the one that is named",
    ":reconnect": "connect again, as before",
    ":quit": "end this, as Ctrl-D does",
}
"""The commands for the shell itself, which begin with a colon, and what `:help` says of them."""
MAX_WIRE_CHARACTERS = 4_000
"""Characters shown of one message."""
MAX_PROMPT_CHARACTERS = 40
"""Characters of the server's name in the prompt."""

Parse = Callable[[Sequence[str], Namespace], Namespace]
Report = Callable[[BaseException], int]


class Shell:
    """One connection, and the person, or the script, that uses it."""

    def __init__(
        self, options: Namespace, parse: Parse, report: Report, commands: Sequence[str], *, has_terminal: bool
    ) -> None:
        """`parse` makes options of the words of a line and these `options`.

        `report` prints an error and returns its exit code.
        """
        self._options, self._parse, self._report = options, parse, report
        self._commands, self._has_terminal = commands, has_terminal
        self._line: show.ProgressLine | None = None
        self._shows_wire = False
        self._is_over = False
        options.shell = self
        self.client = self._connected(options.revision)

    def _connected(self, revision: str | None) -> Client:
        """A new client for the server of this shell. With a terminal, the server may ask the person there."""
        options = self._options
        given = target(options)
        given["options"] = replace(given["options"], on_wire=self._on_wire)
        client = connect(
            **given,
            auth=auth_of(options, given["target"]),
            revision=revision,
            timeout=options.timeout,
            on_log=show.log_message if options.log_level else None,
            elicitation=self._ask if self._has_terminal else None,
            roots=options.root,
        )
        if options.log_level is not None:
            try:
                client.set_log_level(options.log_level)
            except BaseException:
                client.close()
                raise
        return client

    def _ask(self, question: Any) -> Any:
        """Put a question of the server to the person; the line of the running command is hidden meanwhile."""
        ask = terminal.ask if self._line is None else self._line.hidden_during(terminal.ask)
        return ask(question)

    def _on_wire(self, direction: str, message: bytes) -> None:
        if self._shows_wire:
            text = show.in_a_line(message.decode("utf-8", "replace"))
            cut = f"... ({len(message):,} bytes)" if len(text) > MAX_WIRE_CHARACTERS else ""
            arrow = "-->" if direction == ">" else "<--"
            print(f"{arrow} {text[:MAX_WIRE_CHARACTERS]}{cut}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def lend(self, line: show.ProgressLine | None) -> Iterator[Client]:
        """Lend the client to one command; `line` shows how far that is."""
        self._line = line
        try:
            yield self.client
        finally:
            self._line = None

    # -- line by line --------------------------------------------------------------------------------

    def run(self) -> int:
        """Read and run lines until their end; returns an exit code."""
        try:
            return self._run_typed() if sys.stdin.isatty() else self._run_lines()
        finally:
            self.client.close()

    def _run_lines(self) -> int:
        code = 0
        for line in sys.stdin:
            code = self.do(line)
            if self._is_over:
                break
        return code

    def _run_typed(self) -> int:
        self._say_who()
        print(":help lists what can be said here, Ctrl-D ends it", file=sys.stderr)
        completer = Completer(self, [*self._commands, *OWN])
        with _completing(completer):
            while not self._is_over:
                try:
                    line = input(self._prompt())
                except EOFError:
                    print()
                    break
                except KeyboardInterrupt:
                    print()
                    continue
                self.do(line)
                completer.forget()
        return 0

    def _prompt(self) -> str:
        name = show.in_a_line(self.client.server_info.get("name") or "server")
        return f"{name[:MAX_PROMPT_CHARACTERS]}> "

    def _say_who(self) -> None:
        info, client = self.client.server_info, self.client
        who = show.in_a_line(f"{info.get('name', 'a server')} {info.get('version', '')}").rstrip()
        print(f"{who}, revision {client.revision.date}", file=sys.stderr)

    def do(self, line: str) -> int:
        """Run one line; returns its exit code."""
        try:
            words = shlex.split(line, comments=True)
            if not words:
                return 0
            if words[0].startswith(":"):
                self._do_own(*words)
                return 0
            try:
                options = self._parse(words, self._options)
            except SystemExit:  # the line asked for help, which argparse has printed
                return 0
            code: int = options.action(options) or 0
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as problem:
            return self._report(problem)

    # -- what is for the shell itself ----------------------------------------------------------------

    def _do_own(self, word: str, *more: str) -> None:
        """Run a command for the shell itself, whose name may be cut short. Raises ValueError."""
        names = [name for name in OWN if name.startswith(word)] if len(word) > 1 else []
        if word in OWN:
            names = [word]
        if len(names) != 1:
            raise ValueError(f"there is no {word!r:.80}; there are {', '.join(OWN)}")
        if len(more) > (names[0] in (":wire", ":revision")):
            raise ValueError(f"nothing may follow: remove {more[-1]!r:.80}")
        getattr(self, f"_{names[0][1:]}")(*more)

    def _help(self) -> None:
        print(f"commands: {', '.join(self._commands)}; with --help each tells more")
        for name, text in OWN.items():
            print(f"{name:<12}{text}")

    def _wire(self, wanted: str | None = None) -> None:
        if wanted not in (None, "on", "off"):
            raise ValueError(f":wire takes on or off, not {wanted!r:.80}")
        self._shows_wire = not self._shows_wire if wanted is None else wanted == "on"
        print(f"messages are {'shown' if self._shows_wire else 'not shown'}", file=sys.stderr)

    def _revision(self, date: str | None = None) -> None:
        if date is None:
            print(self.client.revision.date)
            return
        self._change_to(self._connected(date))
        self._options.revision = date

    def _reconnect(self) -> None:
        self._change_to(self._connected(self._options.revision))

    def _change_to(self, client: Client) -> None:
        """Close the old connection, and use the new one, which is known to work, in its place."""
        self.client.close()
        self.client = client
        self._say_who()

    def _quit(self) -> None:
        self._is_over = True


@contextlib.contextmanager
def _completing(complete: Callable[[str, int], str | None]) -> Iterator[None]:
    """Have Tab complete words; where Python has no readline, Tab is a character like others."""
    try:
        import readline  # only a shell on a terminal needs it
    except ImportError:
        yield
        return
    previous = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(previous[0])
        readline.set_completer_delims(previous[1])


class Completer:
    """Completes words by what the server lists. Its answers are kept until the line is run."""

    def __init__(self, shell: Shell, commands: Sequence[str]) -> None:
        self._shell, self._commands = shell, commands
        self._kept: dict[str, Any] = {}
        self._found: list[str] = []

    def forget(self) -> None:
        """Forget the answers of the server, so that it is asked again."""
        self._kept.clear()

    def __call__(self, text: str, state: int) -> str | None:
        """For readline: the candidate of this number, or None after the last one."""
        if state == 0:
            import readline  # only a shell on a terminal needs it

            before = readline.get_line_buffer()[: readline.get_begidx()]
            self._found = self.candidates(before, text)
        return self._found[state] if state < len(self._found) else None

    def candidates(self, before: str, text: str) -> list[str]:
        """The words that `text`, which follows `before`, could become. After an error there are no words."""
        try:
            found = self._all(before.split(), text)
        except (McpError, OSError, ValueError, TypeError, LookupError):
            return []
        found = [word for word in found if word.startswith(text) and word.isprintable() and " " not in word]
        return [word if word.endswith("=") else f"{word} " for word in dict.fromkeys(found)]

    def _all(self, words: list[str], text: str) -> list[str]:
        if not words:
            return list(self._commands)
        first, *chosen = words
        fixed = {":wire": ["on", "off"], ":revision": list(REVISIONS)}
        kind = {"call": "tools", "prompt": "prompts"}.get(first)
        if kind is not None and chosen:
            named = [item for item in self._listed(kind) if item["name"] == chosen[0]]
            return self._arguments(kind, named[0], chosen[1:], text)
        if kind is not None:
            return [item["name"] for item in self._listed(kind)]
        if first in ("read", "listen"):
            return [item["uri"] for item in self._listed("resources")]
        return fixed.get(first, [])

    def _listed(self, kind: str) -> list[Any]:
        """The server's tools, prompts or resources; empty if it does not declare the capability."""
        if kind not in self._kept:
            client = self._shell.client
            has_it = kind in (client.server_capabilities or {})
            self._kept[kind] = getattr(client, f"list_{kind}")() if has_it else []
        found: list[Any] = self._kept[kind]
        return found

    def _arguments(self, kind: str, item: Any, chosen: list[str], text: str) -> list[str]:
        """The names of arguments that are left, or the values of the one that is being typed."""
        name, is_named, value = text.partition("=")
        properties = item.get("inputSchema", {}).get("properties", {})
        given = dict(word.split("=", 1) for word in chosen if "=" in word)
        if not is_named:
            names = [*properties, *(argument["name"] for argument in item.get("arguments", []))]
            return [f"{name}=" for name in names if name not in given]
        if kind == "tools":
            return [f"{name}={value}" for value in _values(properties.get(name, {}))]
        result = self._shell.client.complete(
            prompt=item["name"], argument=name, value=value, arguments=given, timeout=5
        )
        return [f"{name}={value}" for value in result["completion"]["values"]]


def _values(schema: Any) -> list[str]:
    """The values that a schema lists, as they are typed."""
    if not isinstance(schema, dict):  # `true`, which allows every value
        return []
    if schema.get("type") == "boolean":
        return ["true", "false"]
    return [v if isinstance(v, str) else json.dumps(v) for v in schema.get("enum", [])]
