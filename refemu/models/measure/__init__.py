"""Figures measured on models: perplexity, accuracy."""
