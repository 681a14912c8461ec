"""Scaffold of a package: a unit with its oracle, cases, decisions and tests."""
