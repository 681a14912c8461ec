"""Mixes: linear layers of some schemes, attention of another."""
