"""The commands of `memory-server`, one file per family; `commands.py` has their names and flags.

Each is an `async` function of the parsed flags that returns the exit status: 0 done, 1 refused, 2 misused.
"""
