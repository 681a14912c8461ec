"""A kernel that compiles fast, for processes that test the compiler's switches."""

from refemu.arith import jit


@jit.kernel
def double(x):
    return x + x
