"""Bits that do not both rise and fall in the sets of head_step, layer_step and kv_compressor-pages, and why.

Keys as in constant.py. [leankv §6.1]
"""

CHOICES = "choices of the rule, and those that these few steps take"
SLOTS = "a slot, or the tokens of a section"
TAKEN = "few pages are taken, and their ids are small"
RECORDS = "codes, metadata, scores and positions of few tokens: each word has other bits, which few rows set and clear"
MOVED = "few tokens move: each word has other bits, which few rows set and clear"
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
        "paper, one_precision: out.choice 3": CHOICES,
        "paper, one_precision: out.victim 3-31": SLOTS,
        "out.written[some] 0-15": RECORDS,
        "paper, diffkv: out.moved[some] 0-15": MOVED,
        "out.p 30-31": CHANCES,
        "out.p[some] 0-29": CHANCES,
        "out.scores 31": SCORES,
        "out.scores[some] 0-30": SCORES,
        "st.seen 4-31": TOKENS,
        "paper, one_precision: st.stored 3-31": TOKENS,
        "st.loaded 3-31": PROMPT,
        "st.cells 3-31": CELLS,
        "st.cells[some] 0-2": CELLS,
        "st.list_start 3-31": PLACE,
        "st.free 4-31": FREE,
        "one_precision: out.taken[some] 0-31": TAKEN,
        "one_precision: out.moved 0-15": MOVED,
        "one_precision: st.stored[some] 0-2": TOKENS,
        "one_precision: st.loaded[some] 0-2": PROMPT,
        "diffkv: out.choice 2": CHOICES,
        "diffkv: out.victim 4-31": SLOTS,
        "diffkv: st.stored 4-31": TOKENS,
        "diffkv: st.stored[some] 3": TOKENS,
    },
    "layer_step": {
        "out.choice 3": CHOICES,
        "one: out.victim 4-31": SLOTS,
        "one: out.taken[some] 1,3": TAKEN,
        "out.written[some] 0-15": RECORDS,
        "out.moved[some] 0-15": MOVED,
        "out.p 30-31": CHANCES,
        "out.p[some] 0-29": CHANCES,
        "out.scores 31": SCORES,
        "out.scores[some] 0-30": SCORES,
        "st.seen 4-31": TOKENS,
        "st.stored 3-31": TOKENS,
        "st.stored[some] 2": TOKENS,
        "st.loaded 3-31": PROMPT,
        "st.loaded[some] 2": PROMPT,
        "one: st.cells 5-31": CELLS,
        "one: st.cells[some] 0-4": CELLS,
        "one: st.list_start 5-31": PLACE,
        "one: st.free 5-31": FREE,
        "three, eight: out.victim 3-31": SLOTS,
        "three: st.cells 4-31": CELLS,
        "three: st.cells[some] 3": CELLS,
        "three: st.list_start 4-31": PLACE,
        "three, eight: st.free 4-31": FREE,
        "eight: out.taken[some] 2": TAKEN,
        "eight: st.cells 3-31": CELLS,
        "eight: st.list_start 3-31": PLACE,
    },
}
PAGES = {
    "pages: out.written[some] 0,13-15": RECORDS,
    "pages: st.high, st.low[some] 0-15": RECORDS,
    "pages: out.moved[some] 14-15": MOVED,
    "pages: out.n_high 2-15": SECTION,
    "pages: out.n_low 3-15": SECTION,
}
