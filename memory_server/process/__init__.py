"""The process that serves all windows of a user: the entrance of the command, the protocol, the server."""
