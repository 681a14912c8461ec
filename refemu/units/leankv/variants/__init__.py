"""Variants of the decisions of each block: devices that a golden set must distinguish from the block."""
