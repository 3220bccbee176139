"""The imperative shell, one manager per conversation: read once, decide once, commit once.

"Manager" is this project's word for that shell, and only for that. Every method may raise `StorageError`: then a
conversation cannot be read or written, and nothing was changed.
"""
