"""Rows of the benchmark table: what is measured beside what."""
