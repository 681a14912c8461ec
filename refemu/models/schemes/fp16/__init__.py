"""Scheme `fp16`, the baseline of the others."""
