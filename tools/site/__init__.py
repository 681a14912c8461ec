"""The documentation site: docs/, and pages generated from descriptors, docstrings and decisions."""
