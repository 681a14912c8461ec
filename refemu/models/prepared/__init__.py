"""Prepared models kept on disk: what `refemu models` lists, checks and prunes."""
