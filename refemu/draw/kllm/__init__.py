"""Drawings of KLLM's blocks [kllm §IV]."""
