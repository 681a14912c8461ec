"""Small built-in models with untrained random weights; no download."""
