"""Resources, a template for some, prompts, and what completes their arguments."""

from typing import Annotated, Any

from fixtures_server import PNG, server

from mcp_ref.api.from_function.prompt import user
from mcp_ref.server.content import embedded, image

# --------------------------------------------------------------------------- resources


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
def static_text() -> str:
    """Text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture that never changes."""
    return PNG


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """Text to subscribe to; test_trigger_resource_update says that it changed."""
    return "Watch this resource for changes."


@server.resource("test://template/{id}/data", name="template", mime_type="application/json")
def template(id: str) -> dict[str, Any]:
    """The data of one id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# ----------------------------------------------------------------------------- prompts


@server.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt(complete={"arg1": ["paris", "park", "party", "test", "testing"]})
def test_prompt_with_arguments(
    arg1: Annotated[str, "the first argument"], arg2: Annotated[str, "the second argument"]
) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, "what to embed"],  # noqa: N803 - the suite's name for it
) -> list[Any]:
    """A prompt with the contents of a resource."""
    return [
        user(embedded(resourceUri, "Embedded resource content for testing.", "text/plain")),
        user("Please process the embedded resource above."),
    ]


@server.prompt
def test_prompt_with_image() -> list[Any]:
    """A prompt with a picture."""
    return [user(image(PNG, "image/png")), user("Please analyze the image above.")]
