"""How a function becomes a tool, a resource or a prompt, from its name, type hints and docstring."""
