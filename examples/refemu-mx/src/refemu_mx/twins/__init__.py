"""Compiled twins of the units."""
