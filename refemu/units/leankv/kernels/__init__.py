"""Kernels of LeanKV that several twins share."""
