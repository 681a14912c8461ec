"""Kernels of KLLM that several twins share."""
