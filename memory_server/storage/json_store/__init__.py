"""Conversations as JSON files: a folder for each, which people can read and edit."""
