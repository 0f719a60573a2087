"""wsgi.py of the project, with the server at /mcp: `gunicorn --threads 16 wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application
from werkzeug.middleware.dispatcher import DispatcherMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
site = get_wsgi_application()

from tools import server  # noqa: E402 - models can be imported from here on

mcp = server.wsgi_app()
application = DispatcherMiddleware(site, {"/mcp": mcp})
