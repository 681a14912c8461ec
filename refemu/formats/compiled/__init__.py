"""Compiled twins of formats that several papers share."""
