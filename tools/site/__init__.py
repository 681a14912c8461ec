"""The documentation site: docs/ as it is, beside pages made from descriptors, docstrings and decisions."""
