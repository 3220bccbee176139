"""Where conversations are kept: in memory (`memory.py`) or as JSON files (`json_store/`)."""
