"""Proofs that a design equals a unit, counterexamples as golden sets, and what they decide."""
