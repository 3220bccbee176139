"""A memory server for chat companions: decaying short-term and triggered long-term memories over MCP."""

__version__ = "0.1.0"
