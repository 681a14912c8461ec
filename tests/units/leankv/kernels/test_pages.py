"""Keys and values from the image of a page: dequantized records at any position. [leankv §6.2]"""

import numpy as np
import pytest

from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.affine import Preset
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.kernels import pages
from refemu.units.leankv.paged_attention import Pages
from refemu.units.leankv.paged_attention.compiled.paged_attention import layout_of

SIZE = 64
CASES = [
    (pair, preset) for pair in ("K8V4", "K4V2", "K2V4", "K4V1", "K16V16", "K8V4_G12") for preset in ("paper", "diffkv")
]


@pytest.mark.parametrize(("pair", "preset"), CASES, ids=["-".join(case) for case in CASES])
def test_a_page_is_read_as_its_records_are(pair: str, preset: Preset) -> None:
    """Every slot of a full page; keys by feature, values by pack, in the slots that are asked for."""
    page = UnifiedPage(SIZE, hetero_kv.find(pair), None, None, k_vec=1, k_group=2, v_vec=2, v_group=2)
    draw = np.random.default_rng(5)
    x = draw.normal(size=(2, page.tokens, SIZE)).astype(np.float16)
    key, value = page.config.key(preset).encode(x[0]), page.config.value(preset).encode(x[1])
    image = page.pack(page.record(key, value, np.zeros(page.tokens), np.arange(page.tokens)))
    layout, key_packs, value_packs = layout_of(Pages(page, None, preset))
    stored = page.tokens_of(page.unpack(image), preset)
    words, meta = np.empty(max(SIZE, page.tokens), np.uint32), np.empty((2, page.tokens), np.float32)

    keys = np.full((SIZE, page.tokens), np.nan, np.float32)
    with np.errstate(all="ignore"):
        pages.page_keys(image, layout[0], key_packs[0], page.tokens - 1, words, meta, keys)
    assert np.isnan(keys[:, -1]).all()
    assert keys[:, :-1].T.tobytes() == stored.key.dequantize().astype(np.float32)[:-1].tobytes()

    slots = np.array([page.tokens - 1, 0, page.tokens // 2], np.int64)
    values = np.empty((len(slots), SIZE), np.float32)
    with np.errstate(all="ignore"):
        pages.page_values(image, layout[0], value_packs[0], slots, words, values)
    per = 16 // page.config.v_bits
    by_feature = values.reshape(len(slots), per, -1).swapaxes(1, 2).reshape(len(slots), SIZE)
    assert by_feature.tobytes() == stored.value.dequantize().astype(np.float32)[slots].tobytes()
