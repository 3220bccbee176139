"""Commands for people who evaluate and develop recall."""
