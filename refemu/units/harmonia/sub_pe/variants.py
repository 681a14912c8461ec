"""Variants of the decisions of sub_pe: none, its one decision is unobservable."""

UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-12": "The ports say which operand has 4 bits. Splitting the other one in a PE gives the same integer, "
    "since (16 h + l) x = 16 h x + l x and sums are exact, so no output of the sub-PE depends on it."
}
