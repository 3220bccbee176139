"""The parts that join conversations and knowledge: what a call may use, turns, and backups."""
