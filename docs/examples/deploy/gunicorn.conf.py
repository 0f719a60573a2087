"""gunicorn -c gunicorn.conf.py wsgi:app"""

import os
import threading
import time

bind = "127.0.0.1:8000"
worker_class = "gthread"  # no other: `sync` kills a stream that is longer than `timeout`
workers = 1  # sessions of the legacy era live in one process
threads = int(os.environ.get("MCP_THREADS", "16"))
keepalive = 75  # seconds; longer than a proxy keeps its connections, so that it never uses a dead one
graceful_timeout = 10  # seconds after SIGTERM: then SIGKILL, for tools that do not end
control_socket_disable = True  # else all servers of one user share the same


def post_worker_init(worker):
    """Have streams ended as soon as the worker is to go, and not when its patience is over."""
    threading.Thread(target=_close_with, args=(worker,), name="mcp close").start()


def _close_with(worker):
    """Not a daemon, so that the process waits for it: it ends with the worker, for whatever reason."""
    from wsgi import app  # in the worker: the master imports nothing of ours

    while worker.alive and threading.main_thread().is_alive():
        time.sleep(0.1)
    app.close(3.0)
