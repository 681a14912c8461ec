"""Packages to start from: a unit with its twin, oracle, cases, decisions and tests."""
