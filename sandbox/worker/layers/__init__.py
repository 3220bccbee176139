"""The powers that the worker process gives up, one module per mechanism of the operating system."""
