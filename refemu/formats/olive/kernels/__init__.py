"""Kernels of the formats of OliVe."""
