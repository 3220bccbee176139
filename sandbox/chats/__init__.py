"""Chat files in the forms that trigger authors have; a module for each form. Imports nothing of ours."""
