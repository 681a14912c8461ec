"""The parts of a block for one token, by its own kernels and those of the compiled units on prepared arrays."""
