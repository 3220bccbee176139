"""Memories of other programs, and ours for them. One module per format, from bytes to contents and back. Pure.

Nothing here reads a file, stores a memory or knows MCP; the commands do that.
"""
