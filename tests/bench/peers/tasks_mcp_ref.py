"""A server of ours whose `later` is `add` as a task. Argument: the file of its SqliteStore, if any."""

import sys

from functions import add

from mcp_ref import Server
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.runtime.stores.memory import MemoryStore
from mcp_ref.runtime.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1]) if sys.argv[1:] else MemoryStore()
server = Server("bench", version="1.0.0", tasks=TaskOptions(store=store, most_live=100_000))
server.add_tool(add)
server.add_tool(add, name="later", task="required")

if __name__ == "__main__":
    server.run()
