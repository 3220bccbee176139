"""The MCP server: tools, resources and prompts over a transport. Only this package knows the MCP SDK."""
