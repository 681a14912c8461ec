"""`refemu` on the command line: parse, call the library, print. No arithmetic in it."""

from refemu.cli.main import console, main

__all__ = ["console", "main"]
