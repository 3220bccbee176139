"""Pictures of a memory: one module per picture, drawn with matplotlib."""
