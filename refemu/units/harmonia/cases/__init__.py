"""Golden cases of the blocks of Harmonia, each under the name of its block."""
