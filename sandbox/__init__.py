"""Runs untrusted JavaScript triggers in a worker process. Imports nothing of ours."""
