"""Bits of outputs and registers that do not both rise and fall in the golden sets of LeanKV's units, and why.

Keys: `[configurations: ]ports[lanes] bits`; without configurations all ready ones, without lanes none of them toggles
the bits, and `[some]` says that others do.
"""

from tests.golden.constant.leankv_steps import PAGES, STEPS

EMPTY = "the last lanes are empty, since a head has at least one high page; and bits that few rows set and clear"
SHARES = "a sum of shares has no sign, and of few queries is below 2; no query looks at later tokens"
PLACE = "the last place once an operation has ended, which is what a row shows"
CONSTANT = {
    "free_page_list": {
        "paper: out.taken[25-27] 3-4": (
            "ids in the last places of a transfer that takes all pages: few, as all must be free before"
        ),
        "paper: out.taken[31] 0-4": (
            "ids in the last places of a transfer that takes all pages: few, as all must be free before"
        ),
        "small: out.taken[4] 2": (
            "ids in the last places of a transfer that takes all pages: few, as all must be free before"
        ),
        "paper: out.list_start, out.list_end 5-31": "a place of the ring, or no more than its pages",
        "small: out.list_start, out.list_end 3-31": "a place of the ring, or no more than its pages",
        "paper: out.free 6-31": "a number of pages: no more than the ring has",
        "small: out.free 3-31": "a number of pages: no more than the ring has",
        "paper: st.ring 5-31": "ids of the pages of the list",
        "paper: st.ring[some] 0-4": (
            "ids change places where pages come back in another order, which a few transfers do for some places"
        ),
        "small: st.ring 3-31": "ids of the pages of the list",
        "small: st.ring[0] 2": "ids change places where pages come back in another order, which some places see twice",
        "small: st.ring[1,3] 0": (
            "ids change places where pages come back in another order, which some places see twice"
        ),
        "paper: st.head 6-47": "counts up alone: upper bits need thousands of transfers",
        "small: st.head, st.tail 12-47": "counts up alone: upper bits need thousands of transfers",
        "paper: st.tail 7-47": "counts up alone: upper bits need thousands of transfers",
    },
    "generation_compressor": {
        "diffkv: st.done 5": (
            "tokens of a step are counted up to the slots in use, at the end of which a row shows them"
        ),
        "cumulative, paper, wide, wide_cumulative: out.choice 3": "codes of the choices of another rule",
        "diffkv: out.choice 2-3": "codes of the choices of another rule",
        "static: out.choice 1-3": "codes of the choices of another rule",
        "cumulative, paper, static: out.victim 5-31": "a slot of the page, or their number",
        "diffkv, wide, wide_cumulative: out.victim 8-31": "a slot of the page, or their number",
        "cumulative, diffkv, paper, wide: st.means 30-31": (
            "shares of attention: no sign, no exponent above that of 1; a static sum of many reaches one"
        ),
        "cumulative, paper: st.means[15] 6,8,12": (
            "the last slot of a full page, in few rows: bits that other lanes set and clear"
        ),
        "diffkv, wide: st.means[some] 0-19,21-22": (
            "random shares: each lane has other bits, which few wide rows set and clear"
        ),
        "static, wide_cumulative: st.means 31": (
            "shares of attention: no sign, no exponent above that of 1; a static sum of many reaches one"
        ),
        "static: st.means, st.shares[0,3,8-13] 30": "shares that are below 2 in these slots; a sum of more reaches it",
        "static: st.means, st.shares[15] 0-20": (
            "the last slot of a full page, in few rows: bits that other lanes set and clear"
        ),
        "wide_cumulative: st.means[some] 0-19,21-22,30": (
            "random shares: each lane has other bits, which few wide rows set and clear"
        ),
        "cumulative, paper, static, wide_cumulative: st.total 31": "a sum of shares: no sign",
        "diffkv: st.total 0-1,4,10,31": "a sum of shares: no sign",
        "wide: st.total 9-10,31": "a sum of shares: no sign",
        "cumulative, diffkv, paper, wide, wide_cumulative: st.shares 30-31": (
            "shares of attention: no sign, no exponent above that of 1"
        ),
        "diffkv: st.shares[some] 0-19,21-22": (
            "random shares: each lane has other bits, which few wide rows set and clear"
        ),
        "static: st.shares 31": "shares of attention: no sign, no exponent above that of 1",
        "wide: st.shares[some] 26": "random shares: each lane has other bits, which few wide rows set and clear",
        "wide_cumulative: st.shares[some] 21-24": (
            "random shares: each lane has other bits, which few wide rows set and clear"
        ),
        "static: out.low_slot 0-31": "a static rule keeps no low section: -1 always",
        "static: out.delta_low 0": "a static rule keeps no low section",
        "static: st.slots[1] 0-31": "a static rule keeps no low section: -1 always",
    },
    "kv_compressor": {
        "out.written[32,50,53] 15": "words of 16 bits of packed features, of which few rows of a case are whole",
        "diffkv: out.moved[16,26,29] 15": "words of 16 bits of packed features, of which few rows of a case are whole",
        "diffkv, paper: out.moved[31] 0": "words of 16 bits of packed features, of which few rows of a case are whole",
        "paper: out.moved[16,26-27,29] 15": (
            "words of 16 bits of packed features, of which few rows of a case are whole"
        ),
        "diffkv, paper: out.n_high 0-15": "no more tokens than a page has; a section only grows in a case",
        "diffkv, paper: out.n_low 2-15": "no more tokens than a page has; a section only grows in a case",
        "st.high, st.low[some] 0-15": (
            "words of records: each is written once or twice in a case, so that a bit seldom rises and falls"
        ),
    },
    "kv_quantizer": {
        "st.element 0-5": "the number of elements once an operation has ended, which is what a row shows",
        "st.written 0": "codes are written to whole words: an even number of bytes once an operation has ended",
        "out.mn, out.mx 0-12": "an fp16 number: 11 significant bits",
        "out.s32 31": "a difference of largest and smallest: no sign",
        "diffkv: out.inv32 31": "a reciprocal of a step: no sign; 0 where the rule divides",
        "paper, stored: out.inv32 0-31": "a reciprocal of a step: no sign; 0 where the rule divides",
        "out.scale 15": "a difference of largest and smallest: no sign",
        "out.status 2": "zero overflow: the zero point is the smallest feature, which is finite",
    },
    "page_manager": {
        "out.counts 3-31": "pages of a head: no more than an entry has",
        "out.counts[5,7] 1-2": "pages of a head: no more than an entry has",
        "out.prefix, out.free 6-31": "no more than the pages of the pool, or a place among them",
        "out.ids[28-31] 0-31": (
            "a prompt of all heads moves fewer pages than the pool has; ids of the pool in the last of them"
        ),
        "paper: out.ids[27] 2-3": (
            "a prompt of all heads moves fewer pages than the pool has; ids of the pool in the last of them"
        ),
        "diffkv: out.lacking 0-31": (
            "pages that a prompt reserved: none where all pages are taken late, a few otherwise"
        ),
        "paper: out.lacking 1-31": "pages that a prompt reserved: none where all pages are taken late, a few otherwise",
        "out.list_start, out.list_end 5-31": "no more than the pages of the pool, or a place among them",
        "st.ring 5-31": "ids of the pages of the pool",
        "diffkv: st.ring[26] 2": (
            "ids change places where pages come back in another order, which some places see twice"
        ),
        "diffkv: st.ring[30] 4": (
            "ids change places where pages come back in another order, which some places see twice"
        ),
        "paper: st.ring[8,16] 2": (
            "ids change places where pages come back in another order, which some places see twice"
        ),
        "st.head, st.tail 8-47": "counted up alone: upper bits take more events than a set has",
        "st.used 3-15": "pages of an entry: those that 12 tokens need",
        "diffkv: st.used[1] 2": "pages of an entry: those that 12 tokens need",
        "diffkv: st.used[3,5,7] 1-2": "pages of an entry: those that 12 tokens need",
        "paper: st.used[1,3,5,7] 1-2": "pages of an entry: those that 12 tokens need",
        "st.tokens 4-31": "tokens of an entry: 12 at most, and a low section has fewer",
        "st.tokens[1,3] 3": "tokens of an entry: 12 at most, and a low section has fewer",
        "st.tokens[5] 1-3": "tokens of an entry: 12 at most, and a low section has fewer",
        "st.tokens[7] 2-3": "tokens of an entry: 12 at most, and a low section has fewer",
        "st.cells 5-31": "ids of the pool, or all ones for none; each cell is written a few times in a case",
        "paper: st.cells[20] 0-1,3-4": "ids of the pool, in a cell that is the last of a head: written in few rows",
    },
    "page_table": {
        "paper: out.ids[2] 0-3,10-11,13,19,22,26,30": (
            "ids of any 32 bits: each cell is written a few times in a case, so that a bit seldom rises and falls"
        ),
        "paper: out.ids[3] 0,2,4-5,7-9,11,14,16,18-20,22-24,29": (
            "ids of any 32 bits: each cell is written a few times in a case, so that a bit seldom rises and falls"
        ),
        "paper: out.ids[4-6] 0-31": (
            "ids of any 32 bits: each cell is written a few times in a case, so that a bit seldom rises and falls"
        ),
        "scrub: out.ids[2-4] 0-31": (
            "ids of any 32 bits: each cell is written a few times in a case, so that a bit seldom rises and falls"
        ),
        "paper: out.count 3-15": "no more than the pages of an entry",
        "scrub: out.count 2-15": "no more than the pages of an entry",
        "out.high_pages, out.low_pages, st.used 3-15": "no more than the pages of an entry",
        "st.used[3] 2": "no more than the pages of an entry",
        "scrub: st.used[4-7] 1-2": "no more than the pages of an entry",
        "st.tokens 31": "tokens of an entry have 31 bits",
        "paper: st.tokens[0] 6": "numbers of any 31 bits, added up: a bit of an entry seldom rises and falls in a case",
        "paper: st.tokens[1] 3,16,18": (
            "numbers of any 31 bits, added up: a bit of an entry seldom rises and falls in a case"
        ),
        "scrub: st.tokens[some] 0-28,30": (
            "numbers of any 31 bits, added up: a bit of an entry seldom rises and falls in a case"
        ),
        "paper: st.cells 9,12,18,27,29,31": (
            "ids of any 32 bits: each cell is written a few times in a case, so that a bit seldom rises and falls"
        ),
        "paper: st.cells[some] 0-8,10-11,13-17,19-26,28,30": (
            "ids of any 32 bits: each cell is written a few times in a case, so that a bit seldom rises and falls"
        ),
        "scrub: st.cells[some] 0-31": (
            "ids of any 32 bits: each cell is written a few times in a case, so that a bit seldom rises and falls"
        ),
    },
    "paged_attention": {
        "f128, f64: out.p[some] 0-29": "slots behind the last token of every row, always empty",
        "f128, f64: out.score 31": "a sum of shares of attention has no sign",
        "f128, f64: out.score[some] 0-30": "slots behind the last token, always empty; two scores only beyond 2",
        "f128, f64: st.logits[some] 0-31": (
            "a logit as large as the largest in one lane only of the rows that fill the pages; slots always empty"
        ),
        "f128, f64: st.totals 31": "a sum of exponentials has no sign",
        "f64: st.totals[some] 24": "exponents of sums of 1 to a few hundred: a bit that other heads set and clear",
        "f128, f64: st.acc[some] 0-31": (
            "most accumulators add in one row alone, of pages that are full: those of slots behind the first few"
        ),
        "f128, f64: st.sums[some] 27": "exponents of sums of values: a bit that some features set and clear",
        "narrow: out.p[some] 0-29": (
            "float32 values: bits that few rows set and clear, signs of what has none, last slots, always empty"
        ),
        "narrow: out.score[some] 0-29": (
            "float32 values: bits that few rows set and clear, signs of what has none, last slots, always empty"
        ),
        "narrow: st.logits[some] 0-31": (
            "float32 values: bits that few rows set and clear, signs of what has none, last slots, always empty"
        ),
        "narrow: st.totals 31": (
            "float32 values: bits that few rows set and clear, signs of what has none, last slots, always empty"
        ),
        "narrow: st.acc[some] 25,30": (
            "float32 values: bits that few rows set and clear, signs of what has none, last slots, always empty"
        ),
        "narrow: st.sums[some] 26": (
            "float32 values: bits that few rows set and clear, signs of what has none, last slots, always empty"
        ),
        "out.p 30-31": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "diffkv, paper: out.p[0] 27,29": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "diffkv, paper: out.p[22-23,46-47] 0-29": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "long: out.p[0] 28-29": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "long: out.p[190-195] 0-29": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "odd: out.p[0] 28": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "odd: out.p[38-41,80-83,122-125,164-167,206-209,248-251,290-293,332-335] 0-29": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "odd: out.p[84,126,210] 29": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "one_precision: out.p[0] 29": (
            "a share of attention, at most 1, has no sign; the first slots are never empty, the last ones always"
        ),
        "diffkv, long, narrow, odd, one_precision, paper: out.score 30-31": (
            "a share of attention, at most 1, has no sign; the first slot is never empty, the last ones always"
        ),
        "diffkv, long, narrow, odd, one_precision, paper: out.score[0] 28-29": (
            "a share of attention, at most 1, has no sign; the first slot is never empty, the last ones always"
        ),
        "diffkv, paper: out.score[22-23] 0-29": (
            "a share of attention, at most 1, has no sign; the first slot is never empty, the last ones always"
        ),
        "long: out.score[190-195] 0-29": (
            "a share of attention, at most 1, has no sign; the first slot is never empty, the last ones always"
        ),
        "odd: out.score[38-41] 0-29": (
            "a share of attention, at most 1, has no sign; the first slot is never empty, the last ones always"
        ),
        "long: out.out[0-6,8-10,13-30,33-36,38-45,48-50,52-55,57-63] 14": (
            "means of features, which are below 2 in these channels"
        ),
    },
    "prompt_compressor": {
        "diffkv, odd, odd_diffkv, odd_static, static: st.rank 0-4": (
            "the last place once an operation has ended, which is what a row shows"
        ),
        "paper: st.rank 0-5": "the last place once an operation has ended, which is what a row shows",
        "diffkv: st.size 0-4": "the last step of the network once an operation has ended, which is what a row shows",
        "odd_diffkv: st.size 0-5": (
            "the last step of the network once an operation has ended, which is what a row shows"
        ),
        "diffkv: st.distance, st.lower 0-3": (
            "the last step of the network once an operation has ended, which is what a row shows"
        ),
        "odd_diffkv: st.distance, st.lower 0-4": (
            "the last step of the network once an operation has ended, which is what a row shows"
        ),
        "diffkv, static: out.cls[15] 0-1": "the newest token is of the window, always",
        "odd, odd_diffkv, odd_static: out.cls[16] 0-1": "the newest token is of the window, always",
        "paper: out.cls[31] 0-1": "the newest token is of the window, always",
        "diffkv, odd, odd_diffkv, odd_static, static: out.order 4-31": (
            "positions of the prompt; the newest token, of the window, is always the last"
        ),
        "diffkv: out.order[15] 0,3": "positions of the prompt; the newest token, of the window, is always the last",
        "odd, odd_diffkv, odd_static: out.order[16] 0-3": (
            "positions of the prompt; the newest token, of the window, is always the last"
        ),
        "paper: out.order 5-31": "positions of the prompt; the newest token, of the window, is always the last",
        "paper: out.order[31] 0-4": "positions of the prompt; the newest token, of the window, is always the last",
        "static: out.order[15] 0-3": "positions of the prompt; the newest token, of the window, is always the last",
        "diffkv, odd, odd_diffkv, odd_static, static: out.n_pruned 4-31": "no more than the tokens of the prompt",
        "paper: out.n_pruned 5-31": "no more than the tokens of the prompt",
        "diffkv, odd, odd_diffkv: out.n_low 4-31": "no more than the tokens of the prompt; a static rule has none",
        "odd_static, static: out.n_low 0-31": "no more than the tokens of the prompt; a static rule has none",
        "paper: out.n_low 5-31": "no more than the tokens of the prompt; a static rule has none",
        "diffkv, odd: out.n_high 4-31": "no more than the tokens of the prompt",
        "odd_diffkv, paper: out.n_high 5-31": "no more than the tokens of the prompt",
        "odd_static, static: out.n_high 3-31": "no more than the tokens of the prompt",
        "st.keys 30-31": (
            "a share has no sign and is at most 1; the newest tokens, of the window, are 1, and pads of a network too"
        ),
        "diffkv, paper, static: st.keys[some] 0-29": "random shares of a token that is of the window most of the time",
        "odd, odd_diffkv, odd_static: st.keys[15] 1-2,12-13,15-17,26-29": (
            "a share of a token that is of the window in most rows: bits that other lanes set and clear"
        ),
        "odd, odd_static: st.keys[16] 0-29": (
            "a share has no sign and is at most 1; the newest tokens, of the window, are 1, and pads of a network too"
        ),
        "odd_diffkv: st.keys[16-31] 0-29": (
            "a share has no sign and is at most 1; the newest tokens, of the window, are 1, and pads of a network too"
        ),
        "diffkv, odd, odd_diffkv, odd_static, static: st.sorted 4-31": (
            "positions of the prompt; the newest token, of the window, stays behind, and pads of a network too"
        ),
        "diffkv: st.sorted[15] 0,3": (
            "positions of the prompt; the newest token, of the window, stays behind, and pads of a network too"
        ),
        "odd, odd_static: st.sorted[16] 0-3": (
            "positions of the prompt; the newest token, of the window, stays behind, and pads of a network too"
        ),
        "odd_diffkv: st.sorted[some] 0-3": "positions behind the shares: pads of a network, which it moves in few ways",
        "paper: st.sorted 5-31": (
            "positions of the prompt; the newest token, of the window, stays behind, and pads of a network too"
        ),
        "paper: st.sorted[31] 0-4": (
            "positions of the prompt; the newest token, of the window, stays behind, and pads of a network too"
        ),
        "static: st.sorted[15] 0-3": (
            "positions of the prompt; the newest token, of the window, stays behind, and pads of a network too"
        ),
        "diffkv, odd_diffkv, odd_static, static: st.running 0-31": (
            "a sum of shares has no sign; rules without a sum leave it 0"
        ),
        "odd, paper: st.running 31": "a sum of shares has no sign; rules without a sum leave it 0",
    },
    "significance": {
        "st.row, st.token 0-3": "the last place once an operation has ended, which is what a row shows",
        "out.sum, st.of_heads 31": (
            "a sum of shares has no sign, and of few queries is below 2; none looks at the newest token"
        ),
        "diffkv: out.sum[1-7] 30": (
            "a sum of shares has no sign, and of few queries is below 2; none looks at the newest token"
        ),
        "paper: out.sum[3-6] 30": (
            "a sum of shares has no sign, and of few queries is below 2; none looks at the newest token"
        ),
        "paper: out.sum[7] 0-30": (
            "a sum of shares has no sign, and of few queries is below 2; none looks at the newest token"
        ),
        "out.mean 30-31": "a mean of shares, at most 1, has no sign; no earlier query looks at the newest token",
        "paper: out.mean[7] 0-29": (
            "a mean of shares, at most 1, has no sign; no earlier query looks at the newest token"
        ),
        "out.share 30-31": "a share, at most 1, has no sign; no earlier query looks at the newest token",
        "paper: out.share[7] 0-29": "a share, at most 1, has no sign; no earlier query looks at the newest token",
        "out.count 0-31": "follows from the configuration and the place of the token, not from the row",
        "diffkv: st.of_heads[1-7,9-15] 30": (
            "a sum of shares has no sign, and of few queries is below 2; none looks at the newest token"
        ),
        "paper: st.of_heads[2-6,11-14] 30": (
            "a sum of shares has no sign, and of few queries is below 2; none looks at the newest token"
        ),
        "paper: st.of_heads[7,15] 0-30": (
            "a sum of shares has no sign, and of few queries is below 2; none looks at the newest token"
        ),
        "diffkv: st.total 0-31": "a sum without a sign; 0 where shares are not normalized",
        "paper: st.total 31": "a sum without a sign; 0 where shares are not normalized",
    },
    "page_reader": {
        "diffkv, fp16: out.key, out.value[some] 0-15": EMPTY,
        "paper: out.key, out.value[some] 0-31": EMPTY,
        "diffkv, fp16, paper: out.score, out.position[some] 0-31": EMPTY,
    },
    "streaming_significance": {
        "st.row, st.token 0-3": PLACE,
        "paper: st.tiles_done 0-1": PLACE,
        "diffkv, two_pass: st.tiles_done 0-2": PLACE,
        "out.count 0-31": "queries that look at a token: the same in every row",
        "out.sum, st.of_heads 31": SHARES,
        "diffkv: out.sum[6-7] 30": SHARES,
        "diffkv: st.of_heads[6-7,14-15] 30": SHARES,
        "paper, two_pass: out.sum[5-6] 30": SHARES,
        "paper, two_pass: out.sum[7] 0-30": SHARES,
        "paper, two_pass: st.of_heads[5-6,13-14] 30": SHARES,
        "paper, two_pass: st.of_heads[7,15] 0-30": SHARES,
        "out.mean, out.share 30-31": SHARES,
        "paper, two_pass: out.mean, out.share[7] 0-29": SHARES,
        "paper, two_pass: out.share[0-1,3] 27-29": "the first tokens always have more than a 2**-7 of the attention",
        "st.norm 31": "a sum of exponentials has no sign",
        "st.norm[0-1] 0-30": "a first query sees one token, whose exponential is 1",
        "paper, two_pass: st.total 31": SHARES,
        "diffkv: st.total 0-31": "a total of shares, the same in every row",
    },
    "prefix_sum": {
        "odd: st.level 0-2": "the last level once an operation has ended, which is what a row shows",
        "paper: st.level 0-1": "the last level once an operation has ended, which is what a row shows",
    },
}
CONSTANT |= STEPS
CONSTANT["kv_compressor"] |= PAGES
