"""The schemes of Harmonia."""
