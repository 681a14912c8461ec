"""Studies of OliVe."""
