"""`repl`: trying a trigger line by line."""
