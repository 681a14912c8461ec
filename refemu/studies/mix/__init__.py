"""Studies of mixes of schemes."""
