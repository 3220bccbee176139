"""Stores of entries: SQLite as the truth, in a file or in memory. Only this room knows SQLite."""
