"""What the user asks for: a request and its sweep, from and to the command line."""
