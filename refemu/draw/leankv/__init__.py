"""Drawings of LeanKV's page and blocks [leankv §5, §6]."""
