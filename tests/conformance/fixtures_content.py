"""Tools that give something back: content of each type, structured data, an error."""

from typing import Any, TypedDict

from fixtures_server import PNG, WAV, server

from mcp_ref.server.content import ContentBlock, audio, embedded, image, resource_link, text


@server.tool(output_schema=False)
def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@server.tool
def test_image_content() -> ContentBlock:
    """Returns an image."""
    return image(PNG, "image/png")


@server.tool
def test_audio_content() -> ContentBlock:
    """Returns sound."""
    return audio(WAV, "audio/wav")


@server.tool
def test_embedded_resource() -> ContentBlock:
    """Returns the contents of a resource."""
    return embedded("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@server.tool
def test_resource_link() -> ContentBlock:
    """Returns a link to a resource."""
    return resource_link(
        "test://static-text",
        "static-text",
        title="Static text",
        description="A resource that never changes.",
        mime_type="text/plain",
    )


@server.tool
def test_multiple_content_types() -> list[ContentBlock]:
    """Returns text, an image and a resource."""
    return [
        text("Multiple content types test:"),
        image(PNG, "image/png"),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ]


@server.tool
def test_error_handling() -> None:
    """Fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool(output_schema=False)
def test_echo(text: str) -> str:
    """Returns the text that it is given."""
    return text


class Weather(TypedDict):
    city: str
    temperature: float
    conditions: list[str]


@server.tool
def test_structured_output(city: str = "Oslo") -> Weather:
    """Returns data as its output schema says."""
    return {"city": city, "temperature": 21.5, "conditions": ["sunny", "light wind"]}


CONTACT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=CONTACT)
def json_schema_2020_12_tool(contact: dict[str, Any]) -> dict[str, Any]:
    """Has an input schema with keywords of JSON Schema 2020-12; returns what it is given."""
    return contact
