"""The cache of prepared models, on disk: what `refemu models` lists, checks and prunes."""
