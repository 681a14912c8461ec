"""Comparing answers of a device with golden vectors."""
