"""`explain`: which part of a condition had which value."""
