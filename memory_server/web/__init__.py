"""The page: what is remembered, why something came up, and how to take it back. Pages are forms and links over the
managers and tools that everybody else uses; this room knows no MCP and no storage."""
