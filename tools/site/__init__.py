"""The documentation site: docs/ unchanged, with pages made from descriptors, docstrings and decisions."""
