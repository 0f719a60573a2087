"""What each command of cli/main does, given the parsed options.

`call`, `tasks` and `tools` return an exit code; the other commands, which end with 0, return None.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mcp_ref.api.client import Client
from mcp_ref.api.connect import connect
from mcp_ref.api.results import Result
from mcp_ref.api.server import Server
from mcp_ref.basic.index.error_responses import ErrorResponse, MethodNotFound
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.progress import OnProgress
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.basic.utilities.tasks.protocol_messages import NoTask
from mcp_ref.cli import show, terminal
from mcp_ref.cli.follow import Choice, Choose, follow
from mcp_ref.cli.login import auth_of
from mcp_ref.cli.servers import all_of, choose_by_tool, is_command, is_several, pairs, target
from mcp_ref.client.elicitation.url_mode import UrlElicitationNeeded
from mcp_ref.runtime.errors import LocalError, RequestTimeout

__all__ = [
    "call",
    "complete",
    "discover",
    "has_terminal",
    "listen",
    "ping",
    "prompt",
    "prompts",
    "read",
    "resources",
    "serve",
    "tasks",
    "tools",
]


def serve(options: Namespace) -> None:
    """Serve a Server that is a variable of a module, or that the module itself runs while it is loaded."""
    if options.log and options.http is None:
        raise ValueError("--log is about requests over HTTP: it goes with --http")
    path, _, name = options.target.rpartition(":")
    path, name = (path, name) if path else (name, None)
    with _run_of_module(options, path, name) as ran:
        try:
            module = _import_module(path)
        except Exception as problem:
            if ran:  # the error came from the service, or from code of the module after it
                raise
            raise ValueError(f"{path} cannot be served: {type(problem).__name__}: {problem}") from problem
    if not ran:
        _serve(_server_of(module, path, name or "server").run, options, {})


def _server_of(module: Any, path: str, name: str) -> Server:
    """The server that a module has by this name. Raises ValueError."""
    server = getattr(module, name, None)
    if isinstance(server, Server):
        return server
    found = [name for name, value in vars(module).items() if isinstance(value, Server)]
    advice = f"; write {path}:{found[0]}" if len(found) == 1 else ""
    raise ValueError(f"{path} has no Server called {name!r}{advice}")


def _serve(run: Callable[..., None], options: Namespace, more: dict[str, Any]) -> None:
    """Serve where the command line says. `more` are the settings of the module's own `run`, for the rest."""
    if options.http is None:
        run()
        return
    host, port = options.http
    said = {"host": host, "port": port, "on_ready": _announce, **({"log": True} if options.log else {})}
    run("http", **{**more, **said})


@contextlib.contextmanager
def _run_of_module(options: Namespace, path: str, name: str | None) -> Iterator[list[Server]]:
    """While a module is loaded, have its own `server.run()` serve where the command line says.

    So what surrounds that line, such as a `with`, holds during the service, and what follows comes after it.
    Yields a list, which has the server once it has run.
    """
    run, ran = Server.run, []

    def run_as_said(server: Server, transport: str = "stdio", **given: Any) -> None:
        module = sys.modules.get(_name_of(path))
        if name is not None and getattr(module, name, None) is not server:
            raise ValueError(
                f"it runs another server than {name!r} while it is loaded: "
                'put that run() below if __name__ == "__main__"'
            )
        ran.append(server)
        _serve(partial(run, server), options, given if transport == "http" else {})

    server_class: Any = Server  # Any: a type checker does not allow a method to be replaced
    server_class.run = run_as_said
    try:
        yield ran
    finally:
        server_class.run = run


def _announce(url: str) -> None:
    print(f"serving at {url}; Ctrl-C ends it", file=sys.stderr, flush=True)


def _name_of(path: str) -> str:
    """The name that a file, or a module, has in `sys.modules`."""
    return Path(path).stem if path.endswith(".py") else path


def _import_module(path: str) -> Any:
    name, file = _name_of(path), Path(path)
    if not path.endswith(".py"):
        sys.path.insert(0, "")
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ValueError(f"there is no file {path}")
    sys.path.insert(0, str(file.resolve().parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _shown(options: Namespace, value: Any, show_it: Callable[[Any], None]) -> None:
    """Print a value: for scripts with `--json`, else for people by `show_it`."""
    if options.json:
        show.as_json(value)
    else:
        show_it(value)


def discover(options: Namespace) -> None:
    with _connect(options) as client:
        facts = {
            "revision": client.revision.date,
            "serverInfo": client.server_info,
            "capabilities": client.server_capabilities,
            "instructions": client.instructions,
        }
        _shown(options, facts, show.server)


def tools(options: Namespace) -> int:
    """List the tools of a server, or of all servers of a configuration. Returns 4 if one has a problem."""
    if not is_several(options):
        with _connect(options) as client:
            _shown(options, client.list_tools(), show.tools)
        return 0
    with all_of(options) as host:
        _shown(options, host.list_tools(), show.tools)
        for name, problem in host.problems.items():
            print(f"mcp-ref: {show.in_a_line(name)}: {show.in_a_line(problem)}", file=sys.stderr)
        return 4 if host.problems else 0


def ping(options: Namespace) -> None:
    with _connect(options) as client:
        start = time.perf_counter()
        client.ping()
        milliseconds = (time.perf_counter() - start) * 1000
        value = {"milliseconds": round(milliseconds, 3)}
        _shown(options, value, lambda _: print(f"answered in {milliseconds:.2f} ms"))


def resources(options: Namespace) -> None:
    with _connect(options) as client:
        try:
            templates = client.list_resource_templates()
        except ErrorResponse as problem:
            if problem.code != MethodNotFound.code:
                raise
            templates = []  # a server with resources only
        resources = client.list_resources()
        found = {"resources": resources, "resourceTemplates": templates}
        _shown(options, found, lambda _: show.resources(resources, templates))


def prompts(options: Namespace) -> None:
    with _connect(options) as client:
        _shown(options, client.list_prompts(), show.prompts)


def call(options: Namespace) -> int:
    """Call a tool and print its result. Returns 1 if the tool says that it failed."""
    if options.ttl is not None and not options.task:
        raise ValueError("--ttl is about a task: it goes with --task")
    choose_by_tool(options)
    line = show.TaskLine() if options.task else show.ProgressLine()
    with _connect(options, line) as client:
        arguments = _arguments(options, client)
        send: Callable[..., Result] = client.call_tool
        if isinstance(line, show.TaskLine):
            send = partial(_call_as_task, options, client, line)
        result = _run(client, line, send, options.tool, arguments)
        _shown(options, result, show.result)
    return 1 if result.is_error else 0


def _call_as_task(
    options: Namespace,
    client: Client,
    line: show.TaskLine,
    tool: str,
    arguments: Json,
    on_progress: OnProgress | None,
) -> Result:
    """Call a tool as a task and return its result. The id of the task is shown at once."""
    try:
        task = client.start_tool(tool, arguments, ttl=options.ttl, on_progress=on_progress)
    except NoTask as problem:
        raise LocalError(f"{problem.why}: leave out --task") from None
    return follow(task, line, _chooser(options, "cancel"), options, is_new=True)


def _chooser(options: Namespace, otherwise: Choice) -> Choose:
    """A function that asks a person, after Ctrl-C, what to do with a task; `otherwise` without a person."""
    if not has_terminal():
        return lambda is_over: otherwise
    words: dict[str, Choice] = {"detach": "detach", "cancel": "cancel"}
    detach = "detach (which ends the server)" if is_command(options) else "detach (it goes on)"

    def choose(is_over: Callable[[], bool]) -> Choice:
        chosen = terminal.choose(f"{detach}, cancel it, or Enter to wait on?", [*words], is_over)
        return "wait" if chosen == "" else words.get(chosen or "detach", "detach")

    return choose


def tasks(options: Namespace) -> int:
    """List the tasks of a server, or show one, cancel it, or wait for its result.

    Returns 1 if the result for which it waited says that the tool failed, as `call` does.
    """
    if options.id is None and (options.wait or options.cancel):
        raise ValueError("--wait and --cancel are about one task: name it, with --id")
    line = show.TaskLine()
    with _connect(options, line) as client:
        if options.id is None:
            _list_tasks(options, client)
            return 0
        task = client.task(options.id)
        if options.cancel:
            task.cancel()
            task.refresh()
        if not options.wait:
            _shown(options, task.state, show.task)
            return 0
        with line:
            result = follow(task, line, _chooser(options, "detach"), options)
        _shown(options, result, show.result)
    return 1 if result.is_error else 0


def _list_tasks(options: Namespace, client: Client) -> None:
    if client.revision.modern:
        raise LocalError(
            f"there is no list of tasks in {client.revision}: ask for one by its id, with --id, or for "
            "the list with --revision 2025-11-25, if the server has that"
        )
    _shown(options, [task.state for task in client.list_tasks()], show.tasks)


def read(options: Namespace) -> None:
    """Read a resource, and print its contents or write them to a file."""
    line = show.ProgressLine()
    with _connect(options, line) as client:
        result = _run(client, line, client.read_resource, options.uri)
        _write_contents(result, options)


def _write_contents(result: Result, options: Namespace) -> None:
    """Print contents on a terminal for people; write them byte for byte anywhere else."""
    if options.output not in (None, "-"):
        try:
            Path(options.output).write_bytes(show.as_bytes(result))
        except OSError as problem:
            raise ValueError(f"--output: {problem}") from None
    elif options.json:
        show.as_json(result)
    elif sys.stdout.isatty() and options.output is None:
        show.contents(result)
    else:
        sys.stdout.buffer.write(show.as_bytes(result))


def prompt(options: Namespace) -> None:
    arguments = pairs("an argument is", options.arguments)
    line = show.ProgressLine()
    with _connect(options, line) as client:
        result = _run(client, line, client.get_prompt, options.name, arguments)
        _shown(options, result, show.messages)


def complete(options: Namespace) -> None:
    chosen = pairs("--with takes", options.chosen)
    with _connect(options) as client:
        result = client.complete(
            prompt=options.prompt,
            resource=options.resource,
            argument=options.argument,
            value=options.value,
            arguments=chosen,
        )
    _shown(options, result, show.suggestions)


def listen(options: Namespace) -> None:
    """Print what changes, until interrupted or for as many changes or seconds as the options say."""
    lists = {"tools": options.tools, "prompts": options.prompts, "resource_list": options.resources}
    if not options.uris and not any(lists.values()):
        lists = dict.fromkeys(lists, True)
    with _connect(options) as client, client.listen(resources=options.uris, **lists) as changes:
        if changes.refused == {*changes.kinds, *changes.uris}:
            raise LocalError("the server notifies of none of these changes")
        print("mcp-ref: listening", file=sys.stderr, flush=True)
        _print_changes(changes, options)


def _print_changes(changes: Changes, options: Namespace) -> None:
    end = time.monotonic() + (options.seconds or float("inf"))
    count = 0
    while count != options.count:
        left = None if options.seconds is None else max(0.0, end - time.monotonic())
        change = changes.next(left)
        if change is not None:
            show.change(change, options.json)
            count += 1
        elif time.monotonic() < end:
            raise LocalError("the server ended the subscription: there will be no more changes")
        elif options.count is None:
            return
        else:
            raise RequestTimeout(f"{count} of {options.count} changes within {options.seconds:g} s")


def _connect(
    options: Namespace, line: show.ProgressLine | None = None
) -> contextlib.AbstractContextManager[Client]:
    """A client for the server of a command. A shell lends the one that it has.

    With a `line`, the server may ask the person at the terminal; the line is hidden meanwhile.
    """
    shell = getattr(options, "shell", None)
    if shell is not None:
        lent: contextlib.AbstractContextManager[Client] = shell.lend(line)
        return lent
    level = getattr(options, "log_level", None)
    where = target(options)
    client = connect(
        **where,
        auth=auth_of(options, where["target"]),
        revision=options.revision,
        timeout=options.timeout,
        on_log=show.log_message if level else None,
        elicitation=line.hidden_during(terminal.ask) if line is not None and has_terminal() else None,
        roots=getattr(options, "root", None),
    )
    if level is not None:
        try:
            client.set_log_level(level)
        except BaseException:
            client.close()
            raise
    return client


def _run(client: Client, line: show.ProgressLine, send: Callable[..., Result], *arguments: Any) -> Result:
    """Send a request and return its result.

    If the server refuses until a page was visited, ask the person to visit it, and send the request again.
    """
    with line:
        try:
            return send(*arguments, on_progress=line.on_progress)
        except UrlElicitationNeeded as problem:
            if client.asker.answering.callbacks.elicitation is None or not client.visit(problem):
                raise
            return send(*arguments, on_progress=line.on_progress)


def has_terminal() -> bool:
    """Whether there is a person who could be asked."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _arguments(options: Namespace, client: Client) -> Json:
    """The arguments of the call: those of `--arguments`, some of them replaced by single ones."""
    whole = _from_json("--arguments", options.whole) if options.whole is not None else {}
    if not isinstance(whole, dict):
        raise ValueError("--arguments takes a JSON object")
    if not options.arguments:
        return whole
    single = pairs("an argument is", options.arguments)
    schemas = [tool["inputSchema"] for tool in client.list_tools() if tool["name"] == options.tool]
    properties = schemas[0].get("properties") if schemas else None
    known = properties if isinstance(properties, dict) else {}
    return {**whole, **{name: _value(name, text, known.get(name)) for name, text in single.items()}}


def _value(name: str, text: str, schema: Any) -> Any:
    """The value of an argument: the text itself if the tool wants a string, else the text read as JSON.

    A text that is not JSON stays text if the tool's schema says no type; otherwise ValueError is raised.
    """
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return text
    try:
        return _from_json(name, text)
    except ValueError as problem:
        if kind is not None:
            wanted = " or ".join(map(str, kind)) if isinstance(kind, list) else kind
            raise ValueError(f"{problem}; the tool wants {wanted}, not {text!r:.80}") from None
        return text


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise ValueError(f"{name}: not JSON: {problem}") from None
