"""A Flask application with a server in it, and a view that calls a tool: `flask --app flask_app run`."""

from flask import Flask, current_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from mcp_ref import Server, connect

app, server = Flask(__name__), Server("greeter")
app.config["GREETING"] = "Hello"


@server.tool
def greet(name: str) -> str:
    """Greet a person by their name."""
    with app.app_context():  # a tool is no view: `current_app`, and what extensions keep there, is in here
        return f"{current_app.config['GREETING']}, {name}!"


@app.get("/greet/<name>")
def view(name: str) -> str:
    with connect(server, check=True) as client:  # or to a URL, or a command
        return client.call_tool("greet", {"name": name}, returns=str)


app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/mcp": server.wsgi_app()})  # type: ignore[method-assign]
