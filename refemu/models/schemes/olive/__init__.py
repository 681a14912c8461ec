"""The schemes of OliVe."""
