"""Compiled twins of steps of the schemes of Harmonia."""
