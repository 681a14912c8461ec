"""Fault coverage of stimuli: the injected faults that a set of golden vectors detects and misses."""
