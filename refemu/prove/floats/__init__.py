"""Binary64 numbers as integers: the operations of `terms.FP` on bit vectors, for texts that are to be synthesizable."""
