"""Number formats of Harmonia [harmonia §III]."""
