"""A kernel that is compiled at once, for processes that look at what the compiler's switches do."""

from refemu.arith import jit


@jit.kernel
def double(x):
    return x + x
