"""`python -m memory_server` is `memory-server`."""

from memory_server.shim import main

if __name__ == "__main__":
    raise SystemExit(main())
