"""The half of the sandbox in the caller's process: worker processes, searches, and what a trigger did before."""
