"""Variants of the decisions of page_table: none is observable at its outputs."""

UNOBSERVABLE: dict[str, str] = {
    "D-leankv-36": "the length of an entry is the number of lanes of `ids`: a device with another length has other "
    "ports, and pages that overflow an entry are invalid, so no row has them",
    "D-leankv-40": "a lookup outside the runs is invalid, and pages are recycled within them: no output reads a cell "
    "that is no longer used, only the register st.cells shows it",
}
