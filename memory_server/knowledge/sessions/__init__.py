"""Memories of users, agents and runs (seed 001)."""
