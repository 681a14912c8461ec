"""Kernels that twins of several papers share."""
