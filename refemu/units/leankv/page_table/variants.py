"""Other answers to the decisions of page_table; none shows in its outputs."""

UNOBSERVABLE: dict[str, str] = {
    "D-leankv-36": "the length of an entry is the number of lanes of `ids`: a device with another length has other "
    "ports, and pages that overflow an entry are refused, so no row holds them",
    "D-leankv-40": "a look-up outside the runs is refused, and pages are given back from within them: no output reads "
    "a cell that is no longer used, only the register st.cells shows it",
}
