"""The hook of a client: recall before a prompt, remember after an answer."""
