"""The values that all other packages use: memories, changes to them, and the ports to storage and triggers. Pure."""
