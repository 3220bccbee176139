"""The sources of triggers: packs, files, the command line."""
