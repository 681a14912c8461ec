"""Masks hide no bit by accident: every bit that counts in every row of every committed set is compared."""

import numpy as np
import pytest

from refemu import units
from refemu.golden.compare.answer_files import Answer
from refemu.golden.compare.diff import compare, differing
from refemu.golden.files import fields, hexfile, sets
from tests.golden import committed

pytestmark = pytest.mark.committed

WITH_MASKS = [name for name in committed.NAMES if units.find(name.partition("-")[0]).care]


def counting(golden: sets.Golden, name: str) -> np.ndarray:
    """Elements that count: all, except that the aligner's illegal lanes have only their mark."""
    if golden.manifest["unit"] == "bfp_aligner" and name in ("out.sign", "out.mantissa"):
        return golden.arrays["out.illegal"] == 0
    return np.ones(golden.arrays[name].shape, np.bool_)


@pytest.mark.parametrize("name", committed.NAMES)
def test_every_flipped_bit_that_counts_differs(name: str) -> None:
    golden = committed.read(name)
    whole = {
        entry["name"]: golden.arrays[entry["name"]]
        for entry in golden.manifest["arrays"]
        if entry["role"] in ("expected", "state")
    }
    for array in whole:
        counts = counting(golden, array)
        for bit in range(golden.array(array)["bits"]):
            flipped = whole[array] ^ whole[array].dtype.type(1 << bit)
            wrong = differing(golden, Answer({**whole, array: flipped}, {}))
            assert np.array_equal(wrong.pop(array), counts), f"bit {bit} of {array}"
            assert not any(others.any() for others in wrong.values()), array
        rows = counts.reshape(golden.rows, -1).any(axis=1)
        found = compare(golden, Answer({**whole, array: flipped}, {}))
        assert found.rows_differ == np.count_nonzero(rows) and found.ports == {array: found.rows_differ}


def test_aligner_has_masks() -> None:
    """Otherwise the tests of masks would test nothing."""
    assert {"bfp_aligner-paper", "bfp_aligner-half_even", "bfp_aligner-hw", "bfp_aligner-exact"} <= set(WITH_MASKS)


@pytest.mark.parametrize("name", WITH_MASKS)
def test_masks_are_uniform_unless_explained(name: str) -> None:
    golden = committed.read(name)
    partial = units.find(golden.manifest["unit"]).partial_care
    listed = [entry for entry in golden.manifest["arrays"] if entry["role"] == "mask"]

    assert listed and all(
        entry.get("partial", "") == partial.get(entry["name"].removesuffix(".care"), "") for entry in listed
    )
    for entry in listed:
        if "partial" not in entry:
            assert set(np.unique(golden.arrays[entry["name"]]).tolist()) == {0, fields.mask_of(entry["bits"])}


@pytest.mark.parametrize("name", WITH_MASKS)
def test_masks_in_care_mem_have_full_width(name: str) -> None:
    """In care.mem, the field of a lane that counts is all ones."""
    golden = committed.read(name)
    layout, text = hexfile.files(golden.manifest, golden.arrays)["care.mem"]
    masks, _ = hexfile.read(text, layout, golden.rows, "care.mem")

    for array, mask in masks.items():
        full = fields.mask_of(golden.array(array)["bits"])
        assert np.array_equal(mask, np.where(counting(golden, array), full, 0)), array
