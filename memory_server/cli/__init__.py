"""The commands of `memory-server`; `commands.py` has their names and flags.

Each is an `async` function that returns the exit status: 0 or None done, 1 refused, 2 misused.
"""
