"""Perplexity of a text under a scheme, its uncertainty, and comparisons of schemes."""
