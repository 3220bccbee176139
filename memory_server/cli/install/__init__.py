"""The clients that a server is installed into: where each keeps its settings, and what must be in them.

Pure: systems, homes and texts are arguments, so that all three systems are tested on one. Files are read, written and
backed up in install/steps.py.
"""
