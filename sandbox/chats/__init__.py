"""Chat files in the forms that trigger authors have. Imports nothing of ours."""
