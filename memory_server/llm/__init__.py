"""Language models of others, over HTTP: the only room that opens a connection to another machine, where asked to."""
