"""Conversations: their memories, changes and stores, and what comes to mind."""
