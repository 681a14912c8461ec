"""Compiled forms of the formats of LeanKV."""
