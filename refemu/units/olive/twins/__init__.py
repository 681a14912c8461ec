"""Compiled twins of the blocks of OliVe, each under the name of its block."""
