"""Kernels that several compiled units of KLLM share."""
