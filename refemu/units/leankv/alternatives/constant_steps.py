"""Bits that do not both rise and fall in the sets of head_step, layer_step and kv_compressor-pages, and why.

Keys as in constant.py. [leankv §6.1]
"""

CHOICES = "choices of the rule, and those that these few steps take"
SLOTS = "a slot, or the tokens of a section"
TAKEN = "few pages are taken, and their ids are small"
RECORDS = "codes, metadata, scores and positions of few tokens: each word has other bits, which few rows set and clear"
MOVED = "few tokens move: each word has other bits, which few rows set and clear"
OUTPUTS = "outputs of few steps: each lane has other bits, which few rows set and clear"
CHANCES = "probabilities of few steps, at most 1, and none in slots that are never used"
SCORES = "scores of few steps, below 2, and none in slots that are never used"
TOKENS = "tokens of a short request"
PROMPT = "tokens of a short prompt"
CELLS = "few page ids, and cells that are never used"
PLACE = "a place of the ring: few pages move"
FREE = "a number of pages: few move"
SECTION = "tokens of the section: few at a time"

STEPS = {
    "head_step": {
        "paper: out.choice 3": CHOICES,
        "paper: out.victim 2-31": SLOTS,
        "paper: out.taken[some] 0-2": TAKEN,
        "diffkv, one_precision, paper: out.written[some] 0-15": RECORDS,
        "paper: out.moved[some] 0-15": MOVED,
        "diffkv, one_precision, paper: out.out 14": OUTPUTS,
        "paper: out.out[some] 0-4,6-12,15": OUTPUTS,
        "diffkv, one_precision, paper: out.p 30-31": CHANCES,
        "diffkv, one_precision, paper: out.p[some] 0-29": CHANCES,
        "diffkv, paper: out.scores 31": SCORES,
        "diffkv, paper: out.scores[some] 0-30": SCORES,
        "diffkv, one_precision, paper: st.seen 4-31": TOKENS,
        "diffkv, one_precision, paper: st.stored 3-31": TOKENS,
        "paper: st.stored[some] 1-2": TOKENS,
        "diffkv, paper: st.loaded 3-31": PROMPT,
        "diffkv, paper: st.loaded[some] 2": PROMPT,
        "diffkv, one_precision, paper: st.cells 0-31": CELLS,
        "paper: st.list_start 1-31": PLACE,
        "one_precision, paper: st.free 1-31": FREE,
        "one_precision: out.choice 1-3": CHOICES,
        "diffkv, one_precision: out.victim 3-31": SLOTS,
        "one_precision: out.taken[some] 0-31": TAKEN,
        "diffkv, one_precision: out.moved 0-15": MOVED,
        "one_precision: out.out[some] 0-2,4,6-11,15": OUTPUTS,
        "one_precision: out.scores 30-31": SCORES,
        "one_precision: out.scores[some] 0-29": SCORES,
        "diffkv, one_precision: st.stored[some] 0-2": TOKENS,
        "one_precision: st.loaded 2-31": PROMPT,
        "one_precision: st.loaded[some] 0-1": PROMPT,
        "diffkv, one_precision: st.list_start 2-31": PLACE,
        "diffkv: out.choice 0-2": CHOICES,
        "diffkv: out.taken 2": TAKEN,
        "diffkv: out.taken[some] 0": TAKEN,
        "diffkv: out.out[some] 0-12,15": OUTPUTS,
        "diffkv: st.free 2-31": FREE,
    },
    "layer_step": {
        "eight, one, three: out.choice 0,3": CHOICES,
        "eight, one, three: out.victim 2-31": SLOTS,
        "one: out.taken 3": TAKEN,
        "one: out.taken[some] 0-2,4-31": TAKEN,
        "eight, one, three: out.written[some] 0-15": RECORDS,
        "eight, one, three: out.moved[some] 0-15": MOVED,
        "eight, one, three: out.out 14": OUTPUTS,
        "eight, one: out.out[some] 0-11,15": OUTPUTS,
        "eight, one, three: out.p 30-31": CHANCES,
        "eight, one, three: out.p[some] 0-29": CHANCES,
        "eight, one, three: out.scores 31": SCORES,
        "eight, one, three: out.scores[some] 0-30": SCORES,
        "eight, one, three: st.seen, st.stored 2-31": TOKENS,
        "eight, one, three: st.loaded 1-31": PROMPT,
        "eight, one, three: st.cells 0-31": CELLS,
        "eight, one, three: st.list_start 0-31": PLACE,
        "one: st.free 0-1,5-31": FREE,
        "eight, three: out.taken 1-2": TAKEN,
        "eight, three: out.taken[some] 0,3-31": TAKEN,
        "three: out.out[some] 0-12,15": OUTPUTS,
        "three: st.free 0,2-31": FREE,
        "eight: st.free 0-31": FREE,
    },
}
PAGES = {
    "pages: out.written[some] 0,13-15": RECORDS,
    "pages: st.high, st.low[some] 0-15": RECORDS,
    "pages: out.moved[some] 14-15": MOVED,
    "pages: out.n_high 2-15": SECTION,
    "pages: out.n_low 3-15": SECTION,
}
