"""Golden cases of the units."""
