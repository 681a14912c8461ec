"""Kernels that compiled units of several papers share."""
