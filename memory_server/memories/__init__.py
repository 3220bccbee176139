"""What joins conversations and knowledge: what a call may use, turns, and backups."""
