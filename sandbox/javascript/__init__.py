"""What can be known of a trigger by reading it, and pieces of JavaScript as a person would write them."""
