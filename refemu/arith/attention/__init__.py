"""Arithmetic around attention that several models share: scores, and scalings of rotary positions."""
