"""Hardware blocks of OliVe [olive §4]."""
