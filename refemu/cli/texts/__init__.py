"""Commands that write text."""
