"""Chat files in the forms that trigger authors have, each form in a module of its own. Imports nothing of ours."""
