"""The parts of every tool: its description, its schema, the forms of its results, and their limit in bytes."""
