"""Memories in PostgreSQL, for several nodes: only this room knows psycopg. docs/how-to/several-nodes.md is for
users."""
