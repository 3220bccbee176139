"""Standard input and output as a transport: lines, frames, and the end of the process."""
