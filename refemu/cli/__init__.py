"""`refemu` on the command line: parse, call the library, print. No arithmetic in it."""

from refemu.cli.main import main

__all__ = ["main"]
