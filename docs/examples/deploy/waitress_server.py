"""python waitress_server.py [port]"""

import queue
import signal
import sys
import threading

from waitress import create_server
from wsgi import THREADS, app


def main(port: int = 8000) -> None:
    http = create_server(
        app,
        host="127.0.0.1",
        port=port,
        threads=THREADS,
        channel_request_lookahead=1,  # else it goes unnoticed that a client has left
        connection_limit=1000,  # streams and idle clients; 100 by default
        asyncore_use_poll=True,  # select() ends at descriptor 1,023
    )
    asked: queue.SimpleQueue[None] = queue.SimpleQueue()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.put(None))
    threading.Thread(target=http.run, name="waitress", daemon=True).start()
    print(f"serving http://127.0.0.1:{http.effective_port}", flush=True)
    asked.get()
    app.close(3.0)  # ends the streams, while waitress still writes
    http.task_dispatcher.shutdown(timeout=2)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
