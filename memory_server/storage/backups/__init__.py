"""Backups as files."""
