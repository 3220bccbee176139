"""`check`: what is wrong with a trigger, and what is suspicious."""
