"""A unit that answers transactions of another process, in frames of packed words on pipes."""
