"""What puts the rooms together: the memories, opened once, and the view of each caller."""
