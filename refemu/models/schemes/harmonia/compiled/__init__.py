"""Compiled steps of the Harmonia schemes."""
