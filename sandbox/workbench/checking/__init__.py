"""`check`: errors in a trigger, and what is suspicious."""
