"""Compiled twins of the formats of LeanKV."""
