"""The half of the sandbox in a process of its own. It has V8, its realm, and the walls around the process."""
