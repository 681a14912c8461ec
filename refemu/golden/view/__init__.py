"""HTML pages without network access, one file each: the events of a unit, and the rows of a set."""
