"""The views, one of which calls a tool."""

from django.http import HttpRequest, HttpResponse
from django.urls import path
from tools import server

from mcp_ref import connect


def home(request: HttpRequest) -> HttpResponse:
    with connect(server, check=True) as client:
        return HttpResponse(client.call_tool("users").text)


urlpatterns = [path("", home)]
