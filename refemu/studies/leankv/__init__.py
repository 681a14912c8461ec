"""Studies of LeanKV."""
