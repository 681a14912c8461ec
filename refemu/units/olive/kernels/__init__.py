"""Kernels that several compiled units of OliVe share."""
