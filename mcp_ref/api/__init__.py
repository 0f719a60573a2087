"""What authors of servers and callers of clients use.

server, registering     `Server`, and how a tool, a resource or a prompt is registered with it
serving                 how a server answers requests and handles notifications
from_function           how a function becomes a tool, a resource or a prompt
context                 `Context`: one request, as its handler sees it
connect, targets        `connect`: makes a client from a command, a URL or a `Server`
client, requests        `Client`, and how it sends any request
answering, events       how a client handles what its server sends, and the thread for its callbacks
options                 `ServerOptions`, `ClientOptions`: options that are rarely needed
wire                    `ClientOptions(on_wire=...)`: a function that sees each message on the wire
hosts                   `connect_all`: several servers at once
results, retrying       what a call returns, now or later, and when a lost request is sent again
tasks, task_calls       requests that run as tasks, and calls of tools that may become one
callbacks               the application's functions that answer a server's questions
authorization           `OAuth`, and the modules for its steps: discovering, oauth_client, token_flow,
                        token_stores, user_agents
resource_server         `ResourceServer`: a server that wants tokens; token_verifiers checks them
pipe_transport, http_transport     the connection of a client; on a pipe, restarted after a crash
mounting                `Server.mount`: the features of another server, offered by this one
tool_handles            `ToolHandle`: enables, disables and updates a tool while clients are connected
at_terminal             what `server.run()` tells the person at a terminal
http_server             `server.run("http")`
notebooks               a result as HTML, for notebooks
"""
