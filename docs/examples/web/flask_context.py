"""Flask: each tool runs within the context of the application, by a hook."""

from collections.abc import Callable
from typing import Any

from flask import Flask, current_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from mcp_ref import Context, Server

app, server = Flask(__name__), Server("shop")
app.config["CURRENCY"] = "EUR"


@server.around
def within_the_application(ctx: Context, params: Any, proceed: Callable[[Any], Any]) -> Any:
    """For every request: `current_app`, `g`, and what extensions such as Flask-SQLAlchemy keep there."""
    with app.app_context():
        return proceed(params)


@server.tool
def price(article: str) -> str:
    """The price of an article."""
    return f"{len(article)} {current_app.config['CURRENCY']}"


@server.tool
def caller(ctx: Context) -> str:
    """Who asks: there is no `flask.request` in a tool, but the same thing by another name."""
    return str(ctx.http.remote_addr if ctx.http is not None else "this process")


mcp = server.wsgi_app()
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/mcp": mcp})  # type: ignore[method-assign]
