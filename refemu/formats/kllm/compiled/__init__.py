"""Compiled twins of the formats of KLLM."""
