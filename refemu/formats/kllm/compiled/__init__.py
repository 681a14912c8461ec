"""Compiled forms of the formats of KLLM."""
