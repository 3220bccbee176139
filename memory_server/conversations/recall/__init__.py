"""Pure decisions of recall: what comes to mind, what is kept. Without clock, files, threads and global chance."""
