"""Packages to start from: a unit with its oracle, cases, decisions and tests."""
