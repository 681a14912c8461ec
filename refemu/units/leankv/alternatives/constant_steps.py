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
SCORES = "scores of few steps: each slot has other bits, and slots that are never used have none"
TOKENS = "tokens of a short request"
PROMPT = "tokens of a short prompt"
CELLS = "few page ids, and cells that are never used"
PLACE = "a place of the ring: few pages move"
FREE = "a number of pages: few move"
SECTION = "tokens of the section: few at a time"

STEPS = {
    "head_step": {
        "diffkv: out.choice 2": CHOICES,
        "diffkv: out.victim 4-31": SLOTS,
        "diffkv, one_precision, paper: out.written[some] 0-15": RECORDS,
        "diffkv, paper: out.moved[some] 0-15": MOVED,
        "diffkv, one_precision, paper: out.out[some] 14": OUTPUTS,
        "diffkv, one_precision, paper: out.p 30-31": CHANCES,
        "diffkv, one_precision, paper: out.p[some] 0-29": CHANCES,
        "diffkv, paper: out.scores 31": SCORES,
        "diffkv, paper: out.scores[some] 0-30": SCORES,
        "diffkv, one_precision, paper: st.seen 4-31": TOKENS,
        "diffkv, one_precision, paper: st.stored 3-31": TOKENS,
        "diffkv, one_precision, paper: st.loaded 3-31": PROMPT,
        "diffkv: st.cells 1-31": CELLS,
        "diffkv: st.cells[some] 0": CELLS,
        "diffkv: st.list_start 3-31": PLACE,
        "diffkv, one_precision, paper: st.free 2-31": FREE,
        "one_precision, paper: out.choice 3": CHOICES,
        "one_precision, paper: out.victim 3-31": SLOTS,
        "one_precision: out.taken[some] 0-31": TAKEN,
        "one_precision: out.moved 0-15": MOVED,
        "one_precision: out.scores 30-31": SCORES,
        "one_precision: out.scores[some] 0-29": SCORES,
        "one_precision: st.stored[some] 0-2": TOKENS,
        "one_precision: st.loaded[some] 0-2": PROMPT,
        "one_precision: st.cells 3-31": CELLS,
        "one_precision: st.cells[some] 0-2": CELLS,
        "one_precision, paper: st.list_start 2-31": PLACE,
        "paper: st.stored[some] 2": TOKENS,
        "paper: st.cells 2-31": CELLS,
        "paper: st.cells[some] 0-1": CELLS,
    },
    "layer_step": {
        "eight, one, three: out.choice 3": CHOICES,
        "eight, three: out.victim 3-31": SLOTS,
        "eight, three: out.taken[some] 2": TAKEN,
        "eight, one, three: out.written[some] 0-15": RECORDS,
        "eight, one, three: out.moved[some] 0-15": MOVED,
        "eight: out.out[some] 1,11,14-15": OUTPUTS,
        "eight, one, three: out.p 30-31": CHANCES,
        "eight, one, three: out.p[some] 0-29": CHANCES,
        "eight, one, three: out.scores 31": SCORES,
        "eight, one, three: out.scores[some] 0-30": SCORES,
        "eight, one, three: st.seen 3-31": TOKENS,
        "eight: st.stored 2-31": TOKENS,
        "eight, three: st.loaded 2-31": PROMPT,
        "eight, three: st.loaded[some] 1": PROMPT,
        "eight, three: st.cells 0,3-31": CELLS,
        "eight, three: st.cells[some] 1-2": CELLS,
        "eight, three: st.list_start 0,3-31": PLACE,
        "eight: st.free 0,2-31": FREE,
        "one: out.victim 4-31": SLOTS,
        "one: out.taken[some] 1,3": TAKEN,
        "one: out.out[some] 14-15": OUTPUTS,
        "one, three: st.stored 3-31": TOKENS,
        "one, three: st.stored[some] 2": TOKENS,
        "one: st.loaded 3-31": PROMPT,
        "one: st.loaded[some] 1-2": PROMPT,
        "one: st.cells 0,4-31": CELLS,
        "one: st.cells[some] 1-3": CELLS,
        "one: st.list_start 4-31": PLACE,
        "one: st.free 5-31": FREE,
        "three: out.out[some] 12,14-15": OUTPUTS,
        "three: st.free 3-31": FREE,
    },
}
PAGES = {
    "pages: out.written[some] 0,13-15": RECORDS,
    "pages: st.high, st.low[some] 0-15": RECORDS,
    "pages: out.moved[some] 14-15": MOVED,
    "pages: out.n_high 2-15": SECTION,
    "pages: out.n_low 3-15": SECTION,
}
