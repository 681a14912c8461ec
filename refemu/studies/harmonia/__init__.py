"""Studies of Harmonia."""
