"""Conversations: their memories, changes and stores, and recall."""
