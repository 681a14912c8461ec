"""Comparison of a device's answers with golden vectors."""
