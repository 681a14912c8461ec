"""Explanations of a wrong answer: variants of decisions and structural changes, each compared with every row."""
