"""Compiled twins of the formats of OliVe."""
