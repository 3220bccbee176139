"""Notes: knowledge under a topic (seed 000)."""
