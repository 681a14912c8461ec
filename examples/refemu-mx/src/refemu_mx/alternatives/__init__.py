"""Other answers to the decisions of the units."""
