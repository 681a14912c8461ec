"""Pages to look at, one file each without network: the events of a unit, and the rows of a set."""
