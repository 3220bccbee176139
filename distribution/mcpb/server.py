"""What a client starts where memory-server was installed as a bundle; `pyproject.toml` beside it says what it needs."""

from memory_server.cli.parser import main

raise SystemExit(main(["serve"]))
