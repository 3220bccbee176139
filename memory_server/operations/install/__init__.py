"""Putting the server into the settings of clients, and taking it out."""
