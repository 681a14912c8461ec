"""Commands that simulate a server."""
