"""`new`: a trigger to begin with."""
