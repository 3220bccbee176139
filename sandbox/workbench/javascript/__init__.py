"""Reading and writing JavaScript."""
