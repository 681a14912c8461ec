"""Words that a unit and a design both compute, and sums in one order: what large questions are reduced to."""
