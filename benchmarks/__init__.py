"""Speed of refemu compared with its alternatives: `python -m benchmarks [ID ...] [--json FILE]`."""
