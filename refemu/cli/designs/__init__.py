"""Commands that ask about a design."""
