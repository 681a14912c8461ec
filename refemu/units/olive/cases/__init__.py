"""Golden cases of the blocks of OliVe, each under the name of its block."""
