"""How good recall is: the questions of a file, whose answers are known, asked of the server's own search.

It reads a file and computes figures. It stores nothing, and only the commands import it.
tests/bench/recall_quality.py measures the same data sets in more ways.
"""
