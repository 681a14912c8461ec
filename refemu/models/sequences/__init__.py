"""Sequences of tokens: several at once, generated text, and the tokens that begin and end a text."""
