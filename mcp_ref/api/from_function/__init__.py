"""How a function becomes a tool, a resource or a prompt: what its name, hints and docstring say of it."""
