"""Bits of outputs and registers that do not both rise and fall in the golden sets of Harmonia's units, and why.

Keys: `[configurations: ]ports[lanes] bits`; without configurations all ready ones, without lanes none of them toggles
the bits, and `[some]` says that others do.
"""

CONSTANT = {
    "bfp_accumulator": {
        "exact: out.flags 0-2": "an exact sum raises no flag",
        "paper: out.value 0-1": "a product of two fp16 numbers: 22 significant bits",
    },
    "bfp_converter": {
        "exact: st.emax, st.align_emax[8-15] 4": (
            "the same unit but for the sign of zeros: the set paper has these bits"
        ),
        "st.filled, st.position 6": "64 columns end a block and are never held: the register is 0 then",
    },
    "bfp_pe": {
        "st.latched[3] 8,10,13": (
            "the fourth of four sums: it falls with the pass behind it only, which few cases begin"
        ),
        "st.todo 0-2": "0 once an operation has ended, which is what a row shows",
        "exact: out.flags 0-2": "an exact sum raises no flag",
        "paper: st.value 0-1": "a product of two fp16 numbers: 22 significant bits",
    },
    "bfp_pe_array": {
        "exact: out.flags 0-2": "an exact sum raises no flag",
        "st.col 0-3": "the last column leaves at the end of an operation, which a row shows",
    },
    "bfp_pe_array_clocked": {
        "hold: st.next_columns[2] 2": "a group moves into the last column of its tile, and no further",
        **{
            f"hold: st.current_columns[{column}] {column}": "a column works on groups of tiles that have it"
            for column in range(3)
        },
        "by_slot, overlap: st.next_columns[1] 1": "a group moves into the last column of its tile, and no further",
        "by_slot, overlap: st.current_columns[0] 0": "a column works on groups of tiles that have it",
        "by_slot, overlap: st.current_columns[1] 1": "a column works on groups of tiles that have it",
        "long, parallel: st.current_columns 0": "a column works on groups of tiles that have it",
        "columns, paper: st.next_columns[15] 15": "a group moves into the last column of its tile, and no further",
        **{
            f"columns, paper: st.current_columns[{column}] {column}": "a column works on groups of tiles that have it"
            for column in range(16)
        },
        "columns, hold, long, overlap, parallel: st.next_rows, st.current_rows 0": "one row has every group",
        "long, parallel: out.col 0": "an array of one column",
        "long: out.flags, st.sum_flags 0-2": "an exact sum raises no flag",
    },
    "bit_allocator": {
        "out.tokens 9,13-15,17-31": (
            "tokens are only counted up: 21 bits, of which the upper ones change once in thousands of tokens"
        ),
        "out.demote_k 0": (
            "a cache only grows: once the K of a token falls, that of another one falls in every later event"
        ),
        "local16: out.k_token 20-31": (
            "tokens of 20 bits, counted up; upper bits fall and rise once in thousands of tokens"
        ),
        "paper: out.k_token 11-31": (
            "tokens of 20 bits, counted up; upper bits fall and rise once in thousands of tokens"
        ),
        "out.v_group 15-31": "groups of 32 tokens, of 2**20 tokens at most",
        "local16: out.low_tokens 10-31": (
            "tokens are only counted up: 20 bits, of which the upper ones change once in thousands of tokens"
        ),
        "paper: out.low_tokens 9-31": (
            "tokens are only counted up: 20 bits, of which the upper ones change once in thousands of tokens"
        ),
        "local16: out.low_groups 4,6-31": (
            "groups are only counted up: 15 bits, of which the upper ones change once in thousands of tokens"
        ),
        "paper: out.low_groups 4-31": (
            "groups are only counted up: 15 bits, of which the upper ones change once in thousands of tokens"
        ),
    },
    "fdgf": {
        "st.group 6-11": "groups of a reduction: more than 63 take thousands of reads",
        "out.mt 5-11": "tiles of the matrices of the set: larger ones take millions of events",
        "paper: out.kt 6-11": "tiles of the matrices of the set: larger ones take millions of events",
        "small: out.kt 5-11": "tiles of the matrices of the set: larger ones take millions of events",
        "paper: out.count 23-29": "elements of the operations of the set: more take millions of events",
        "small: out.count 22-29": "elements of the operations of the set: more take millions of events",
        "out.a_address 8-23": "addresses of the matrices of the set: larger ones take millions of events",
        "out.b_address 7-23": "addresses of the matrices of the set: larger ones take millions of events",
        "paper: st.fetched 4,23-47": (
            "elements are only counted up, by whole tiles, and more than 2**22 take millions of events"
        ),
        "small: st.fetched 22-47": (
            "elements are only counted up, by whole tiles, and more than 2**22 take millions of events"
        ),
    },
    "harmonia_core": {
        "bias: out.mantissa[18] 7": "another element of the group has the larger exponent in all rows but few",
        "keys, values: out.sign 0": "probabilities have no sign, and what stays FP16 has no codes",
        "keys: out.mantissa[16,17,35] 0-7": "probabilities of tokens to come are 0",
        "keys: out.exponent 3-4": "the largest of 18 probabilities at most: 1/16 and more",
        "keys: out.y[0-15,18-34,36-53] 14-15": "probabilities, at most 1",
        "keys: out.y[16,17,35] 0-15": "probabilities of tokens to come are 0",
        "keys: out.array_cycles 3": "two to six passes of 16 or 17 cycles each, never one between 8 and 15",
        "values: out.mantissa 0-7": "what stays FP16 has no codes",
        "values: out.exponent 0-4": "what stays FP16 has no codes",
        "score: out.sign 0": "probabilities have no sign",
        "score: out.mantissa[27] 5": "the share of an early token among few: bits that other lanes set and clear",
        "score: out.mantissa[31-34,67-69,103-104] 0-7": (
            "probabilities of tokens to come are 0; one bit falls where softmax of these rows does not"
        ),
        "score: out.exponent 4": "probabilities, at most 1; of tokens to come all are 0",
        "score: out.exponent[0,2] 3": "probabilities, at most 1; of tokens to come all are 0",
        "score: out.exponent[1,3] 0-3": "probabilities, at most 1; of tokens to come all are 0",
        "score: out.y 14-15": "probabilities, at most 1; those of tokens to come are 0",
        "score: out.y[27] 9": "the share of an early token among few: bits that other lanes set and clear",
        "score: out.y[31-34,67-69,103-104] 0-13": "probabilities, at most 1; those of tokens to come are 0",
    },
    "harmonia_core_clocked": {
        "linear, v, paper, drain: out.row 0-2": "the first row of a band of eight",
        "k, placed: out.row 0-1": "the first row of a band of eight, of which there is one",
        "decode, keys: out.row 0": "the first row of a band of eight, of which there is one",
        "linear, v, keys, paper, drain: out.working[4] 0": "the K-offset generator works on keys alone",
        "v: out.working[3] 0": "V goes past the vector unit",
        "linear: st.phase 6": "of the clocks that a product takes where nothing overlaps",
        "k, decode, placed: st.phase 5": "of the clocks that a product takes where nothing overlaps",
        "v, drain: st.phase 7": "of the clocks that a product takes where nothing overlaps",
        "keys: st.phase 6-7": "of the clocks that a product takes where nothing overlaps and every row has passes",
        "linear, k, decode, placed, v, paper, drain: st.b_held 4-7": "weights of four bits have no upper nibble",
        "linear, k, decode, placed, v, paper, drain: st.b_sign_held 0": "weights of four bits have signed codes",
        "linear, k, decode, placed, v, paper, drain: st.b_exp_held 0-4": "weights have factors instead",
        "keys: st.w_scale_held 0-15": "keys have shared exponents instead",
        "keys: out.sign 0": "probabilities have no sign",
        "keys: out.exponent 4": "probabilities, at most 1",
        "keys: out.word 14-15": "probabilities, at most 1",
        "paper: st.y[58] 15": "a sum whose sign is that of all products of the set",
        "placed: st.position_held[0] 0-21": "the first key of a window stands at position 0",
    },
    "k_offset": {
        "head, small: st.negative[0,1,3,4,5,7] 0": (
            "sign of the largest word so far: it falls where a larger one has none"
        ),
        "paper: st.negative[13] 0": "sign of the largest word so far: it falls where a larger one has none",
        "head, small: st.written, st.read 2": (
            "tokens of a window are only counted up: its length is reached once in a case"
        ),
        "paper: st.written, st.read 5": "tokens of a window are only counted up: its length is reached once in a case",
        "head, small: st.chosen 1": "channels with an offset are only counted up: the last is reached once in a case",
        "paper: st.chosen 0": "channels with an offset are only counted up: the last is reached once in a case",
        "st.frozen 0": "offsets stay once they are chosen, until the next reset",
        "head, small: st.rows 0-15": "each word of the window is written once in a case",
        "out.offset 0-15": "chosen once, at the end of a window, and never taken back in a case",
        "out.selected 0": "chosen once, at the end of a window, and never taken back in a case",
        "out.peak 14-15": "magnitudes that only grow in a window: no sign, and the top bits rise but do not fall",
        "head, small: out.peak[some] 0-13": (
            "magnitudes that only grow in a window: a bit falls only where a larger peak has it not"
        ),
        "paper: out.peak[some] 0,7,9-13": (
            "magnitudes that only grow in a window: a bit falls only where a larger peak has it not"
        ),
    },
    "v_grouper": {
        "out.tokens 7-31": "counted up alone: upper bits take more events than a set has",
    },
}
