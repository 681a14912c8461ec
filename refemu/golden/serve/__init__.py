"""A unit that answers transactions of another process: packed words in frames on pipes."""
