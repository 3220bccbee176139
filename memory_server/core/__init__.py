"""What everything else speaks of: memories, changes to them, and the ports behind which they are kept. Pure values."""
