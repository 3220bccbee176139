"""Tables about words: which ones never count, and how rare each one is."""
