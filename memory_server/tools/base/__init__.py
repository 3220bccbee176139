"""What every tool is made of: its description, its schema, the forms of its results, and their bound in bytes."""
