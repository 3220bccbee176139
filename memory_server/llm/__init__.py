"""Language models of others, over HTTP."""
