"""Small models made from a seed, which need no download."""
