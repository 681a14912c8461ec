"""Other answers to the decisions of each block: devices that a golden set must tell from the block."""
