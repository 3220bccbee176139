"""What runs: the memories, opened once, the view of each caller, and what puts the rooms together."""
