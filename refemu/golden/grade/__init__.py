"""Grades of stimuli: which wrong devices a set of golden vectors convicts, and which it lets pass."""
