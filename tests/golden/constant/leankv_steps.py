"""Bits that do not both rise and fall in the sets of layer_step and kv_compressor-pages, and why.

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
    "layer_step": {
        "one, three, eight, batch, head, head_one_precision: out.choice 3": CHOICES,
        "head_diffkv: out.choice 2": CHOICES,
        "one, head_diffkv: out.victim 4-31": SLOTS,
        "three, eight, batch, head, head_one_precision: out.victim 3-31": SLOTS,
        "head_one_precision: out.taken[some] 0-31": TAKEN,
        "batch: out.taken[some] 0,2,4": TAKEN,
        "out.written[some] 0-15": RECORDS,
        "one, three, eight, batch, head, head_diffkv: out.moved[some] 0-15": MOVED,
        "head_one_precision: out.moved 0-15": MOVED,
        "out.p 30-31": CHANCES,
        "out.p[some] 0-29": CHANCES,
        "out.scores 31": SCORES,
        "out.scores[some] 0-30": SCORES,
        "st.seen 4-31": TOKENS,
        "one, three, eight, batch, head, head_one_precision: st.stored 3-31": TOKENS,
        "three, eight, batch: st.stored[some] 2": TOKENS,
        "head_one_precision: st.stored[some] 0-2": TOKENS,
        "head_diffkv: st.stored 4-31": TOKENS,
        "head_diffkv: st.stored[some] 3": TOKENS,
        "st.loaded 3-31": PROMPT,
        "one, three, eight, batch: st.loaded[some] 2": PROMPT,
        "head_one_precision: st.loaded[some] 0-2": PROMPT,
        "batch: st.cells 6-31": CELLS,
        "batch: st.cells[some] 0-5": CELLS,
        "one: st.cells 5-31": CELLS,
        "one: st.cells[some] 0-4": CELLS,
        "three: st.cells 4-31": CELLS,
        "three: st.cells[some] 3": CELLS,
        "eight, head, head_one_precision, head_diffkv: st.cells 3-31": CELLS,
        "head, head_one_precision, head_diffkv: st.cells[some] 0-2": CELLS,
        "batch: st.list_start 6-31": PLACE,
        "one: st.list_start 5-31": PLACE,
        "three: st.list_start 4-31": PLACE,
        "eight, head, head_one_precision, head_diffkv: st.list_start 3-31": PLACE,
        "batch: st.free 6-31": FREE,
        "one: st.free 5-31": FREE,
        "three, eight, head, head_one_precision, head_diffkv: st.free 4-31": FREE,
    },
}
PAGES = {
    "pages: out.written[some] 0,13-15": RECORDS,
    "pages: st.high, st.low[some] 0-15": RECORDS,
    "pages: out.moved[some] 14-15": MOVED,
    "pages: out.n_high 2-15": SECTION,
    "pages: out.n_low 3-15": SECTION,
}
