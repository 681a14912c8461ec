"""The scheme that computes in FP16, the baseline of the others."""
