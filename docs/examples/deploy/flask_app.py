"""gunicorn -c gunicorn.conf.py flask_app:app, and for development: flask --app flask_app run"""

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from wsgi import app as mcp
from wsgi import server

app = Flask(__name__)


@app.get("/")
def home() -> str:
    return f"{server.info['name']}: the tools are at /mcp\n"


# These paths go to the server, the rest to the views.
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/mcp": mcp, "/health": mcp})
