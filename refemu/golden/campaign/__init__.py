"""Campaigns: random cases by the million, in shards, by several workers."""
