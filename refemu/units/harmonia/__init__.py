"""Hardware blocks of Harmonia [harmonia §IV]."""
