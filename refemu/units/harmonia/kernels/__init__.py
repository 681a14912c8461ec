"""Kernels of Harmonia that several twins share."""
