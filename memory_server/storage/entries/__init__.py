"""Stores of entries: SQLite as the truth, in a file or in memory, or Markdown files. Only this room knows SQLite."""
