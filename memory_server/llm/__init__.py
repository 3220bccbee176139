"""Language models of others, over HTTP, where the settings name one."""
