"""Entry point of `python -m refemu`."""

from refemu.cli import console

console()
