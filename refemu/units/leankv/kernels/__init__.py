"""Kernels that several compiled units of LeanKV share."""
