"""Checks of C programs against golden sets; texts/golden_set.h links to examples/kernels/golden_set.h."""
