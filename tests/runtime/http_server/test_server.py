"""runtime/http_server/server: the server as a whole: it listens, counts, refuses, stops, and leaves
nothing behind.
"""

import errno
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from http_peers import RawHttp, request, serving
from peers import ENV, PATIENCE, eventually, nothing_left

from mcp_ref.runtime.http_server import server as module
from mcp_ref.runtime.http_server.server import HttpServer


def hello(environ, start_response):
    start_response("200 OK", [])
    return [threading.current_thread().name.encode()]


class Stream:
    """An application whose responses go on until `end` is called."""

    def __init__(self):
        self.told = queue.SimpleQueue()
        self.closed = threading.Semaphore(0)

    def __call__(self, environ, start_response):
        start_response("200 OK", [])
        try:
            yield b"begun"
            yield self.told.get(timeout=PATIENCE)
        finally:
            self.closed.release()

    def end(self, number=1):
        for _ in range(number):
            self.told.put(b"ended")


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("mcp_ref http ")]


def beside(run, *args):
    thread = threading.Thread(target=run, args=args)
    thread.start()
    return thread


def joined(thread):
    thread.join(PATIENCE)
    return not thread.is_alive()


# -- listening -------------------------------------------------------------------------------------


def test_a_server_listens_as_soon_as_it_is_there():
    with nothing_left():
        server = HttpServer(hello, port=0)
        try:
            assert (server.host, server.connections) == ("127.0.0.1", 0)
            assert server.port > 0
            with RawHttp(server.port) as client:
                client.send(request())
                thread = beside(server.serve)
                assert client.response().status == 200
        finally:
            server.close()
        assert joined(thread)


def test_a_port_in_use_is_an_error_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1, port {port}: .*in use") as caught:
            HttpServer(hello, port=port)
    assert caught.value.errno == errno.EADDRINUSE


def test_an_address_that_is_not_ours_is_an_error_that_names_it():
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1, port 0"):
        HttpServer(hello, "192.0.2.1", 0)
    with pytest.raises(OSError, match=r"cannot listen on no\.\.host, port 0"):
        HttpServer(hello, "no..host", 0)
    with pytest.raises(ValueError, match="a port is a number up to 65535, not 70000"):
        HttpServer(hello, port=70000)


def test_a_port_can_be_used_again_at_once():
    with serving(hello) as server, RawHttp(server.port) as client:
        client.send(request("GET", "/", None, "Connection: close")).response()
    server = HttpServer(hello, port=server.port)
    server.close()


def test_ipv6_is_spoken_where_the_system_does():
    try:
        server = HttpServer(hello, "::1", 0)
    except OSError as problem:
        pytest.skip(str(problem))
    with nothing_left():
        thread = beside(server.serve)
        with socket.create_connection(("::1", server.port), PATIENCE) as client:
            client.sendall(request())
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        server.close()
        assert joined(thread)


# -- connections -----------------------------------------------------------------------------------


def test_each_connection_has_a_thread_with_a_name_and_a_number():
    with serving(hello) as server, RawHttp(server.port) as one, RawHttp(server.port) as two:
        names = [client.send(request()).response().body for client in (one, two, one)]
        assert names == [b"mcp_ref http 1", b"mcp_ref http 2", b"mcp_ref http 1"]
        assert server.connections == 2
        assert all(thread.daemon for thread in threads())
        one.close()
        assert eventually(lambda: server.connections == 1)


def test_a_connection_too_many_is_refused_without_a_thread(caplog):
    with serving(hello, max_connections=2) as server:
        with RawHttp(server.port) as one, RawHttp(server.port) as two:
            for client in (one, two):
                assert client.send(request()).response().status == 200
            for _ in range(3):
                with RawHttp(server.port) as third:
                    answer = third.send(request()).response()
                    assert (answer.status, answer.headers["connection"]) == (503, "close")
                    assert answer.headers["retry-after"] == "1"
                    assert third.ended()
            assert len(threads()) == server.connections == 2
            assert one.send(request()).response().status == 200
        assert eventually(lambda: server.connections == 0)
        with RawHttp(server.port) as client:
            assert client.send(request()).response().status == 200


def test_connections_that_were_refused_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(module, "MAX_REFUSED_OPEN", 3)
    monkeypatch.setattr(module, "REFUSED_OPEN_SECONDS", 10 * PATIENCE)
    with serving(hello, max_connections=1) as server, RawHttp(server.port) as only:
        only.send(request()).response()
        refused = [RawHttp(server.port) for _ in range(10)]
        for client in refused:
            assert client.response().status == 503
        assert eventually(lambda: len(server._refused) == 3)  # after the last answer there are four at first
        for client in refused:
            client.close()


def test_connections_that_were_refused_are_closed_soon(monkeypatch):
    monkeypatch.setattr(module, "REFUSED_OPEN_SECONDS", 0.0)
    with serving(hello, max_connections=0) as server, RawHttp(server.port) as client:
        assert client.response().status == 503
        assert eventually(lambda: not server._refused)


def test_a_thread_that_cannot_be_started_is_a_connection_too_many(monkeypatch):
    def no_more(thread):
        raise RuntimeError("can't start new thread")

    with serving(hello) as server:
        monkeypatch.setattr(module.threading.Thread, "start", no_more)
        with RawHttp(server.port) as client:
            answer = client.response()
        monkeypatch.undo()
        assert answer.status == 503
        assert server.connections == 0
        with RawHttp(server.port) as client:
            assert client.send(request()).response().status == 200


def test_a_server_without_open_files_left_goes_on_when_there_are_some(monkeypatch, caplog):
    accept = socket.socket.accept
    failures = iter([errno.EMFILE, errno.ENFILE])

    def scarce(listener):
        for number in failures:
            raise OSError(number, os.strerror(number))
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    with serving(hello) as server, RawHttp(server.port) as client:
        assert client.send(request()).response().status == 200
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_a_connection_that_is_gone_before_it_is_accepted_is_nothing(monkeypatch, caplog):
    accept = socket.socket.accept
    failures = iter([errno.ECONNABORTED])

    def gone(listener):
        for number in failures:
            raise OSError(number, os.strerror(number))
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", gone)
    with serving(hello) as server, RawHttp(server.port) as client:
        assert client.send(request()).response().status == 200
    assert caplog.records == []


def test_a_fault_of_our_own_ends_one_connection_and_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(module.HttpConnection, "run", lambda connection: 1 / 0)
    with serving(hello) as server:
        with RawHttp(server.port) as client:
            assert client.ended()
        assert eventually(lambda: server.connections == 0)
    assert [record.name for record in caplog.records] == ["mcp_ref.http"]


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_thousand_connections_leave_nothing_behind():
    with serving(hello) as server:
        with RawHttp(server.port) as client:
            client.send(request()).response()
        assert eventually(lambda: server.connections == 0)
        before = open_files()
        for number in range(1000):
            client = RawHttp(server.port)
            if number % 4 == 1:
                client.send(b"GET / HT")
            elif number % 4 == 2:
                client.send(request())
            elif number % 4 == 3:
                client.send(request("POST", "/", None, "Content-Length: 9"))
            (client.close if number % 3 else client.reset)()
        assert eventually(lambda: server.connections == 0)
        assert eventually(lambda: threads() == [])
        assert eventually(lambda: open_files() <= before)


def test_what_is_normal_is_not_logged(caplog, capfd):
    with caplog.at_level(logging.INFO), serving(hello) as server:
        with RawHttp(server.port) as client:
            client.send(request()).response()
        with RawHttp(server.port) as client:
            client.send(b"garbage\r\n\r\n").response()
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


# -- the end ---------------------------------------------------------------------------------------


def test_stop_ends_serve_and_may_be_called_again_from_anywhere():
    with nothing_left():
        server = HttpServer(hello, port=0)
        thread = beside(server.serve)
        with RawHttp(server.port) as client:
            client.send(request()).response()
            server.stop()
            assert joined(thread)
            server.stop()
            assert client.send(request()).response().status == 200
            with pytest.raises(OSError):
                RawHttp(server.port)
        server.close()
        server.close()


def test_stop_from_a_request_ends_serve_after_its_answer():
    def app(environ, start_response):
        server.stop()
        return hello(environ, start_response)

    with serving(app) as server, RawHttp(server.port) as client:
        assert client.send(request()).response().status == 200


def test_close_from_a_request_does_not_wait_for_itself():
    def app(environ, start_response):
        server.close(PATIENCE)
        return hello(environ, start_response)

    with serving(app) as server, RawHttp(server.port) as client:
        assert client.send(request()).response().headers["connection"] == "close"


def test_stop_before_serve_is_not_forgotten():
    server = HttpServer(hello, port=0)
    server.stop()
    server.serve()
    server.close()


def test_close_before_serve_leaves_nothing_to_serve():
    server = HttpServer(hello, port=0)
    server.close()
    server.serve()
    with pytest.raises(OSError):
        RawHttp(server.port)


def test_ctrl_c_ends_serve_like_stop():
    child = (
        "import signal, threading\n"
        "from mcp_ref.runtime.http_server.server import HttpServer\n"
        "def app(environ, start_response):\n"
        "    start_response('200 OK', [])\n"
        "    return []\n"
        "server = HttpServer(app, port=0)\n"
        "print(server.port, flush=True)\n"
        "server.serve()\n"
        "server.close()\n"
        "print('closed', threading.active_count())\n"
    )
    environment = {**os.environ, **ENV}
    with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, env=environment) as process:
        with RawHttp(int(process.stdout.readline())) as client:
            assert client.send(request()).response().status == 200
            process.send_signal(2)
            assert process.stdout.read() == b"closed 1\n"
            assert client.ended()
        assert process.wait(PATIENCE) == 0


def test_ctrl_c_while_a_connection_is_accepted_loses_no_thread():
    """It comes when the thread runs and `start` has not returned yet; `close` waits for that thread, too."""
    child = (
        "import os, signal, threading\n"
        "from mcp_ref.runtime.http_server.server import HttpServer\n"
        "start = threading.Thread.start\n"
        "def interrupted(thread):\n"
        "    start(thread)\n"
        "    if thread.name.startswith('mcp_ref http'):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread.start = interrupted\n"
        "begun, open_until = threading.Event(), threading.Event()\n"
        "def app(environ, start_response):\n"
        "    begun.set()\n"
        "    open_until.wait(10)\n"
        "    start_response('200 OK', [('Content-Length', '0')])\n"
        "    return []\n"
        "server = HttpServer(app, port=0)\n"
        "print(server.port, flush=True)\n"
        "server.serve()\n"
        "begun.wait(10)\n"  # `close` hangs up where no request has come yet
        "open_until.set()\n"
        "server.close(10)\n"
        "print('closed', threading.active_count())\n"
    )
    environment = {**os.environ, **ENV}
    with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, env=environment) as process:
        with RawHttp(int(process.stdout.readline())) as client:
            assert client.send(request()).response().status == 200
            assert process.stdout.read() == b"closed 1\n"
        assert process.wait(PATIENCE) == 0


def test_close_ends_idle_connections_at_once():
    with nothing_left():
        server = HttpServer(hello, port=0)
        thread = beside(server.serve)
        with RawHttp(server.port) as used, RawHttp(server.port) as new, RawHttp(server.port) as half:
            used.send(request()).response()
            half.send(b"GET / HTTP/1.1\r\n")
            assert eventually(lambda: server.connections == 3)
            server.close(PATIENCE)
            assert threads() == []
            assert used.ended()
            assert new.ended()
        assert joined(thread)


def test_close_lets_requests_come_to_their_end():
    app = Stream()
    with nothing_left():
        server = HttpServer(app, port=0)
        serve = beside(server.serve)
        with RawHttp(server.port) as client:
            client.send(request()).head()
            assert client.chunk() == b"begun"
            close = beside(server.close, PATIENCE)
            assert joined(serve)
            app.end()
            assert [client.chunk(), client.chunk()] == [b"ended", b""]
            assert joined(close)
            assert client.ended()
        assert app.closed.acquire(timeout=PATIENCE)


def test_an_answer_that_begins_during_close_says_that_the_connection_ends():
    entered, go_on = threading.Event(), threading.Event()

    def app(environ, start_response):
        entered.set()
        go_on.wait(PATIENCE)
        return hello(environ, start_response)

    with nothing_left():
        server = HttpServer(app, port=0)
        serve = beside(server.serve)
        with RawHttp(server.port) as client:
            client.send(request())
            assert entered.wait(PATIENCE)
            close = beside(server.close, PATIENCE)
            assert joined(serve)
            go_on.set()
            assert client.response().headers["connection"] == "close"
            assert client.ended()
            assert joined(close)


def test_close_cuts_streams_that_do_not_end(monkeypatch):
    monkeypatch.setattr(module, "JOIN_SECONDS", PATIENCE)
    started = threading.Semaphore(0)
    closed = threading.Semaphore(0)

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            yield b"begun"
            started.release()
            while True:
                threading.Event().wait(0.005)
                yield b"more"
        finally:
            closed.release()

    with nothing_left():
        server = HttpServer(app, port=0)
        thread = beside(server.serve)
        clients = [RawHttp(server.port).send(request()) for _ in range(20)]
        for _ in clients:
            assert started.acquire(timeout=PATIENCE)
        server.close(0.05)
        assert threads() == []
        for client in clients:
            assert closed.acquire(timeout=0)
            client.close()
        assert joined(thread)


def test_close_says_what_it_could_not_end(monkeypatch, caplog):
    monkeypatch.setattr(module, "JOIN_SECONDS", 0.05)
    app = Stream()
    with nothing_left():
        server = HttpServer(app, port=0)
        thread = beside(server.serve)
        with RawHttp(server.port) as client:
            client.send(request()).head()
            client.chunk()
            server.close(0.0)
            assert [record.levelname for record in caplog.records] == ["WARNING"]
            app.end()
        assert joined(thread)


def test_importing_the_package_does_not_import_the_server():
    code = "import sys, mcp_ref; print({'werkzeug', 'mcp_ref.runtime.http_server.server'} & set(sys.modules))"
    environment = {**os.environ, **ENV}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment) == b"set()\n"


# -- in a forked child, which has copies of the sockets --------------------------------------------


def test_a_forked_child_closes_its_copies_of_the_sockets_and_the_parent_keeps_its_own():
    server = HttpServer(hello, port=0)
    ours, peer = socket.socketpair()
    parents, listening = ours.dup(), server._listener.dup()
    with ours, peer, parents, listening:
        server._threads[ours] = threading.current_thread()
        server._not_serving.clear()  # the parent serves; its loop is on a thread that the child has not
        server.forked()
        assert (ours.fileno(), server._listener.fileno(), server.connections) == (-1, -1, 0)
        parents.sendall(b"still there")
        assert peer.recv(100) == b"still there"
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE):
            listening.accept()[0].close()


def test_a_forked_child_may_serve_where_its_parent_does_not():
    """As programs do that listen first and fork their workers afterwards."""
    with nothing_left():
        server = HttpServer(hello, port=0)
        server.forked()
        thread = beside(server.serve)
        with RawHttp(server.port) as client:
            assert client.send(request()).response().status == 200
        server.close()
        assert joined(thread)
