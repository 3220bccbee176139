"""How good recall is: questions whose answer is known, asked of the server's own search and of plain baselines.

It reads data sets and computes figures. It stores nothing, and only the commands import it.
"""
