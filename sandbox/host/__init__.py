"""The half of the sandbox in the caller's process. It has worker processes, searches, and what a trigger did before."""
