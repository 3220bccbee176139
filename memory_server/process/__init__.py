"""The process that serves all windows of a user. It has the entrance of the command, the protocol, the server."""
