"""What can be known of a trigger by reading it. It also writes pieces of JavaScript as a person would."""
