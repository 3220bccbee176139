"""The upkeep of memories without a user: the daily clean-up."""
