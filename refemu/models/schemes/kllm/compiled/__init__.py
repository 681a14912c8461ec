"""The parts of a block for one token, by the kernels of the compiled units on prepared arrays."""
