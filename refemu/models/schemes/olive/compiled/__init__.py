"""Compiled steps of the OliVe schemes."""
