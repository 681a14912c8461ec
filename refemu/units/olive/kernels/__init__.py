"""Kernels of OliVe that several twins share."""
