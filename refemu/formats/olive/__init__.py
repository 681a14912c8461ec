"""Number formats of OliVe [olive §3]."""
