"""Rows of the benchmark table: what is measured, compared with what."""
