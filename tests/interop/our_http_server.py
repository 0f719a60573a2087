"""A server of this folder over HTTP. Arguments: its module, options of `run` as JSON, its revisions.

It tells its URL in the first line of its output, and serves until SIGTERM.
"""

import importlib
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from choices import for_http


def main(name: str, options: str, *revisions: str) -> None:
    sys.argv = [name, *revisions]  # where the modules look for them
    server = importlib.import_module(name).server
    server.run("http", port=0, on_ready=lambda url: print(url, flush=True), **for_http(json.loads(options)))


if __name__ == "__main__":
    main(*sys.argv[1:])
