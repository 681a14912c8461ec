"""Harmonia's accelerator on a block of a decoder."""
