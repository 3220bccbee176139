"""A folder that holds one partition of a store: its journal, its lock and its names. Knows nothing of memories."""
