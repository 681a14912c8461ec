"""Bits of outputs and registers that do not both rise and fall in the golden sets of KLLM's units, and why.

Keys: `[configurations: ]ports[lanes] bits`; without configurations all ready ones, without lanes none of them toggles
the bits, and `[some]` says that others do.
"""

CONSTANT = {
    "clustering": {
        "exact: out.overflow 0": "exact arithmetic does not overflow",
        "paper, paper_3: st.compared 15": "a magnitude, so no sign",
    },
    "concat": {
        "a3: out.q 7": "indices of fewer than 4 bits: no index of two parts reaches these bits",
        "a3_qk: out.q 6-7": "indices of fewer than 4 bits: no index of two parts reaches these bits",
    },
    "functional": {
        "exp: out.y 15": "an exponential: no sign; of softmax at most 1, so no exponent above that of 1",
        "softmax, softmax32: out.y 14-15": (
            "an exponential: no sign; of softmax at most 1, so no exponent above that of 1"
        ),
        "softmax: st.terms 14-15": "exponentials of differences from the largest: at most 1, no sign",
        "softmax32: st.terms 30-31": "exponentials of differences from the largest: at most 1, no sign",
        "softmax, softmax32: st.total 31": "a sum of exponentials: no sign",
    },
    "index_counter": {
        "example, w4a4: out.count 12": "bits beyond what a column of the set counts; a counter falls by a clear alone",
        "example: out.count[0-1,3-5] 5-11": (
            "bits beyond what a column of the set counts; a counter falls by a clear alone"
        ),
        "example: out.count[2,6] 4-11": "bits beyond what a column of the set counts; a counter falls by a clear alone",
        "integer: out.count 15": "bits beyond what a column of the set counts; a counter falls by a clear alone",
        "integer: out.count[0-1] 7,9-14": (
            "bits beyond what a column of the set counts; a counter falls by a clear alone"
        ),
        "integer: out.count[2,5-6,8-11,13] 7-14": (
            "bits beyond what a column of the set counts; a counter falls by a clear alone"
        ),
        "integer: out.count[3-4,7,12,14] 6-14": (
            "bits beyond what a column of the set counts; a counter falls by a clear alone"
        ),
        "w4a4: out.count[some] 3-11": "a counter falls by a clear alone, and only some have full columns",
    },
    "index_function": {
        "relu: out.entries, out.value 15": "relu has no negative result",
    },
    "index_norm": {
        "layer, rms: out.rms 31": "a square root has no sign",
        "layer_exact: out.rms 63": "a square root has no sign",
        "layer, rms: out.folded 15": "a scale by a root: no sign",
        "layer, rms: out.divided 15": "centroids ascend around 0 in every row of the set, so that each keeps its sign",
        "st.count 4": "more tokens at an index than the rows of the set have at it",
        "st.count[1-14] 3,5": "more tokens at an index than the rows of the set have at it",
        "layer, rms: st.dense 0-3,25-29,31": (
            "counts by squares: few significant bits, exponents near those of the row's length, no sign"
        ),
        "layer_exact: st.dense 0-32,54-61,63": (
            "counts by squares: few significant bits, exponents near those of the row's length, no sign"
        ),
        "layer: st.moments[1] 31": "a mean square has no sign",
        "layer_exact: st.moments[1] 63": "a mean square has no sign",
        "rms: st.moments 31": "a mean square has no sign",
    },
    "kllm_chip": {
        "out.a_scale 15": "a magnitude, so no sign",
        "out.cycles_taken 0-31": "cycles follow from the sizes and from the number of outliers, the same in every row",
        "softmax: out.z 14-15": "a score: at most 1, no sign",
        "softmax: st.terms 14-15": "exponentials of differences from the largest: at most 1, no sign",
        "softmax: st.total 31": "a sum of exponentials: no sign",
    },
    "orizuru": {
        "n11_drained: out.outlier_mask 0": "a drained tree popped every element",
        "out.root_max_valid, out.root_min_valid 0": "follows from n and k: whether k pops leave an element",
        "n11_drained, n16, n16_total_order: st.node 0-4": "the register set last is the same in every operation",
        "n64: st.node 0-6": "the register set last is the same in every operation",
        "n8: st.node 0-3": "the register set last is the same in every operation",
        "n11_drained, n8: st.k 0-3": "the k of the configuration, a constant",
        "n16, n16_total_order: st.k 0-4": "the k of the configuration, a constant",
        "n64: st.k 0-6": "the k of the configuration, a constant",
        "n11_drained: st.p, st.q 0": "a drained tree holds nothing",
        "n11_drained: st.p_mask, st.q_mask 0": (
            "not popped in a row of this wide set, while narrower sets pop every element; of a drained tree all are"
        ),
    },
    "orizuru_clocked": {
        "n16: st.k 0-4": "the k of the configuration, a constant",
        "n16_total_order: st.k 0-4": "the k of the configuration, a constant",
        "n8: st.k 0-3": "the k of the configuration, a constant",
    },
    "orizuru_passes": {
        "out.root_max_valid, out.root_min_valid 0": "follows from n and k: whether k pops leave an element",
        "out.passes_taken 0-23": "follows from n, k and inputs, whatever the values",
        "out.cycles_taken 0-39": "follows from n, k and inputs, whatever the values",
    },
    "fp16_mac": {
        "ieee, ieee_separate: out.fflags 3": "DZ: nothing is divided",
    },
    "pe_lane": {
        "column, counter: st.merging 1": "a merge takes one edge: partial histograms are added at once, or not at all",
        "counter: st.columns 0": "counters with columns of their own fill a tile at once: no column, or one a counter",
        "counter: st.working 0-1": "counters with columns of their own fill a tile at once: every tile has all columns",
        "column: st.counted[4-6] 3-4": "counts of the second of three columns, which no case of the set fills",
        "column: st.counted[7] 4": "counts of the second of three columns, which no case of the set fills",
        "column: st.reducing[4-6] 2-4": "counts of the second of three columns, which no case of the set fills",
        "column: st.reducing[7] 0,4": "counts of the second of three columns, which no case of the set fills",
    },
    "score_quantizer": {
        "fixed3: out.scale 0-15": "a scale has no sign; that of fixed range is a constant, that of shares at most 1",
        "fold4: out.scale 15": "a scale has no sign; that of fixed range is a constant, that of shares at most 1",
        "fold4_exact: out.scale 31": "a scale has no sign; that of fixed range is a constant, that of shares at most 1",
        "max8: out.scale 14-15": "a scale has no sign; that of fixed range is a constant, that of shares at most 1",
        "fold4: st.folded 15": "shares by scales: no sign; a product of two fp16 numbers has 22 significant bits",
        "fold4_exact: st.folded 0-1,31": (
            "shares by scales: no sign; a product of two fp16 numbers has 22 significant bits"
        ),
        "fold4: st.top 15": "the largest of numbers without a sign; of shares it is at most 1",
        "fold4_exact: st.top 0-1,31": "the largest of numbers without a sign; of shares it is at most 1",
        "max8: st.top 14-15": "the largest of numbers without a sign; of shares it is at most 1",
    },
    "weighted_sum": {
        "exact: out.overflow 0": "an exact sum overflows only at the end",
        "st.acc 0-12": "an fp16 number: 11 significant bits",
        "exact, integer: st.done 0-4": "the MACs of a whole sum, the same in every row",
        "example: st.done 0-3": "the MACs of a whole sum, the same in every row",
        "w4a4: st.done 0-8": "the MACs of a whole sum, the same in every row",
    },
}
