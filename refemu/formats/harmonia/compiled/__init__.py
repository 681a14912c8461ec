"""Compiled forms of the formats of Harmonia."""
