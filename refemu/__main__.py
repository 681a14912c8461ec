"""`python -m refemu`."""

from refemu.cli import console

console()
