"""Golden cases of the blocks of LeanKV, each under the name of its block."""
