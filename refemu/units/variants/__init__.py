"""Variants of decisions that units of several papers take."""
