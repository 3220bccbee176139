"""Where memories are kept: conversations as JSON files, knowledge in SQLite and in Markdown files, and backups."""
