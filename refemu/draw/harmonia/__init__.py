"""Drawings of Harmonia's format and blocks [harmonia §II-B, §IV]."""
