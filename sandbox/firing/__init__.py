"""Which memories come once their triggers are true, in which order, and which of them fit. Values and decisions for the
server and the workbench, pure but for the rounds of recursion.py."""
