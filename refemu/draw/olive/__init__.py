"""Drawings of OliVe's formats and blocks [olive §3, §4]."""
