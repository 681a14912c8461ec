"""A block under a LeanKV scheme at the ports of the paper's units."""
