"""Compiled forms of units on variables: derived ones, hand-written ones, and the helpers that both call."""
