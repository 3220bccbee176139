"""Put the server into the settings of clients, and remove it."""
