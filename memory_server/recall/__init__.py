"""Pure decisions of recall: what comes to mind, what is kept. No clock, file, thread or global chance in here."""
