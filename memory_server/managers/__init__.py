"""The imperative shell, one manager per conversation: read once, decide once, commit once.

"Manager" is this project's word for that shell, and only for that.
"""
