"""Where triggers come from: packs, files, the command line."""
