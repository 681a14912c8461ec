"""Bits of outputs and registers that do not both rise and fall in the golden sets of OliVe's units, and why.

Keys: `[configurations: ]ports[lanes] bits`; without configurations all ready ones, without lanes none of them toggles
the bits, and `[some]` says that others do.
"""

CONSTANT = {
    "flint_decoder": {
        "out.exponent 0,3": "even exponents up to 6",
    },
    "mmaovp_clocked": {
        "out.d[some] 0,12-13,15-18,31": (
            "128 edges make a tile of 64 wide sums: few whole tiles are in the set; mmaovp has them all"
        ),
        "st.a_pairs_held, st.b_pairs_held[some] 0-7": (
            "few tiles of wide rows, so that the operands of one seldom follow those of another; mmaovp has them all"
        ),
        "st.bias_a_held 0-2": (
            "few tiles of wide rows, so that the operands of one seldom follow those of another; mmaovp has them all"
        ),
    },
    "olive_systolic_clocked": {
        "out.illegal 0": "sticky: it stays until a reset, before which a case ends",
        "st.west_held_exponent[2-3] 4": "lines of 4-bit pairs only, whose exponents have 4 bits",
        "st.north_held_exponent[1] 4": "lines of 4-bit pairs only, whose exponents have 4 bits",
        "st.a_exponent, st.b_exponent[1-3,5-7] 4": "elements of 4-bit operands only, whose exponents have 4 bits",
        "st.partial[3,7] 8-9": "a product of the low halves, which are unsigned: 0 to 225",
    },
    "olive_requant": {
        "st.rescale 31": "the sign of a product of scales, which are positive",
    },
    "olive_pe8": {
        "saturate, wrap: out.partial[3] 8-9": "a product of the low halves, which are unsigned: 0 to 225",
        "out.shift[3] 6": "the shift of the low halves has no 8 in it: 62 at most",
    },
}
