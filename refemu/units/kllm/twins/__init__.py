"""Compiled twins of the blocks of KLLM, each under the name of its block."""
