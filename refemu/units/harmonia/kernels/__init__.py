"""Kernels that several compiled units of Harmonia share."""
