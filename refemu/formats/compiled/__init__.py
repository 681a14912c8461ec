"""Compiled forms of formats that several papers share."""
