"""Compiled twins of the formats of Harmonia."""
