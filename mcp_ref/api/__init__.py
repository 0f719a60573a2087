"""What authors of servers and callers of clients use.

server, registering     `Server`, and how a tool, a resource or a prompt is registered with it
from_function           how a function becomes a tool, a resource, a prompt
context                 `Context`: one request, as its handler sees it
connect                 `connect`: from a command, a URL or a `Server` to a client
client, requests, features     `Client`
results                 what a call returns, now or later
callbacks               functions of the user's that the server's questions are put to
pipe_transport, http_transport     the connection of a client, made again after it was lost
http_server             `server.run("http")`
"""
