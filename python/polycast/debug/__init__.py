"""What autocasting does to a program: its calls one by one, the values in them, and where these go wrong."""
