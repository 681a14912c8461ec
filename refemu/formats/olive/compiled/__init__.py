"""Compiled forms of the formats of OliVe."""
