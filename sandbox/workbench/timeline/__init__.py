"""`timeline`: at which messages of a chat triggers fire."""
