"""How good recall is: questions whose answer is known, asked of the server's own search and of plain baselines.

Reads data sets and reckons figures; stores nothing, and no other part of the server imports it.
"""
