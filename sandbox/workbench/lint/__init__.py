"""Lint rules for triggers: what compiles and runs, and yet cannot be meant."""
