"""Explanations of a wrong answer: other decisions and structural mistakes, each held against every row."""
