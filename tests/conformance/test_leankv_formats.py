"""DiffKV's quantizer and page layouts: codes, metadata, decoded values, offsets and sizes, all equal."""

import ast
import json
import re
from typing import Any

import numpy as np
import pytest

from refemu.formats import Affine, HeteroKV, UnifiedPage
from refemu.formats.leankv import kv_layout
from refemu.formats.leankv.compiled import affine as affine_compiled
from refemu.units.leankv import kv_quantizer
from tests.conformance.conftest import FOLDER, absent


def table(name: str) -> dict[str, Any]:
    path = FOLDER / "leankv" / f"{name}.json"
    if not path.is_file():
        absent(f"no reference data at {path}: set REFEMU_ORACLE to their folder")
    return json.loads(path.read_text())


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal words; a NaN is a NaN."""
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("bits", [8, 4, 2, 1])
def test_quantizer_is_that_of_the_kernels(reference: Any, bits: int) -> None:
    """D-leankv-1, D-leankv-2, D-leankv-8: 65 vectors, ties and ends among them, by format and compiled form."""
    data, fmt = reference("leankv/quant_chunk"), Affine.preset("diffkv", bits)
    tensor = fmt.encode(data["x"])

    assert np.array_equal(data[f"packs{bits}"], tensor.words())
    assert np.array_equal(data[f"meta{bits}"], tensor.metadata())
    assert same(data[f"dequant{bits}"], tensor.dequantize())
    assert all(
        np.array_equal(a, b)
        for a, b in zip(affine_compiled.encode_words(fmt, data["x"]), (tensor.words(), tensor.metadata()), strict=True)
    )


@pytest.mark.parametrize("bits", [8, 4, 2, 1])
def test_quantizer_unit_is_that_of_the_kernels(reference: Any, bits: int) -> None:
    data = reference("leankv/quant_chunk")
    result = kv_quantizer.run(data["x"].view(np.uint16), bits, features=128, preset="diffkv")

    assert np.array_equal(data[f"packs{bits}"], result.words[:, : 8 * bits])
    assert np.array_equal(data[f"meta{bits}"], np.stack([result.scale, result.zero], axis=-1))


def test_page_offsets_are_those_of_the_kernels() -> None:
    """D-leankv-14: eight pairs at head size 128, in the page of the search."""
    found = table("page_layout_offsets")
    assert len(found) == 8
    for name, offsets in found.items():
        k, v, key_groups, value_groups, tokens = map(int, re.findall(r"\d+", name))
        page = UnifiedPage(128, HeteroKV(k, v, key_groups, value_groups))

        assert (tokens, offsets) == (page.tokens, {**page.offsets, "end": page.end})


def test_page_sizes_are_those_of_the_search() -> None:
    """D-leankv-13: seven head sizes, eight pairs, with or without a layout."""
    found = table("page_sizes_all_heads")
    assert len(found) == 7
    for head_size, entry in found.items():
        assert entry["block_bytes"] == kv_layout.page_bytes(int(head_size))
        for pair, tokens in entry["tokens"].items():
            pair_of = HeteroKV(*ast.literal_eval(pair))
            assert tokens == kv_layout.tokens_in(int(head_size), pair_of, entry["block_bytes"])


def test_integer_requantizer_of_published_code_is_not_reproduced(reference: Any) -> None:
    """D-leankv-30: that table, which nothing calls, is off by one; codes are decoded and encoded afresh."""
    wide = Affine(4).encode(np.arange(16, dtype=np.float32))
    narrow = Affine(2).encode(wide.dequantize())

    assert narrow.code.tolist() == [round(code / 5) for code in range(16)]
    assert reference("leankv/requant_tables")["rq_4to2"].tolist() != narrow.code.tolist()
