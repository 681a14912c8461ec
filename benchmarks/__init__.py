"""Speed of refemu beside what a user would pick instead: `python -m benchmarks [ID ...] [--json FILE]`."""
