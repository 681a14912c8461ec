"""The ready constants are found by name."""

from typing import get_args

import numpy as np
import pytest

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.formats import presets
from refemu.formats.leankv.hetero_kv import PAIRS, PairName
from tests.formats.names import PUBLIC
from tests.oracles.olive import ovp

NAMES = (
    "E0M3_BIAS0",
    "E0M3_BIAS1",
    "E1M2_BIAS1",
    "E1M2_BIAS2",
    "E2M1_BIAS0",
    "E2M1_BIAS2",
    "E2M1_BIAS3",
    "E2M5_BIAS2",
    "E3M0_BIAS2",
    "E3M0_BIAS4",
    "E4M3_BIAS4",
    "FLINT4",
    "INT4",
    "INT8",
    "OVP_FLINT4",
    "OVP_FLINT4_REPO",
    "OVP_INT4",
    "OVP_INT4_REPO",
    "OVP_INT8",
    "OVP_INT8_REPO",
)

TYPED = {
    formats.AbFloat: presets.AbFloatName,
    formats.Flint: presets.FlintName,
    formats.IntFormat: presets.IntName,
    formats.Ovp: presets.OvpName,
    formats.Bfp: presets.BfpName,
    formats.GroupInt: presets.GroupIntName,
    formats.HeteroKV: PairName,
}


def test_constants_are_the_ready_formats() -> None:
    assert tuple(formats.constants()) == NAMES
    assert set(NAMES) == {name for name in ovp.ELEMENTS | ovp.PAIRS if not name.endswith("_PLAIN")}


@pytest.mark.parametrize("name", NAMES)
def test_find_takes_any_case_and_repr_evaluates_back(name: str) -> None:
    fmt = formats.find(name.lower().replace("_", "-"))

    assert fmt is getattr(formats, name)
    assert eval(repr(fmt), PUBLIC) == fmt  # the text is ours
    assert hash(fmt) == hash(eval(repr(fmt), PUBLIC))


def test_find_rejects_unknown_name_with_nearest() -> None:
    with pytest.raises(Refused, match="unknown format 'ovp_int5'; did you mean 'OVP_INT"):
        formats.find("ovp_int5")


def test_the_tables_hold_every_constant_of_the_package() -> None:
    kinds = (formats.Element, formats.Ovp, formats.Bfp, formats.GroupInt, formats.HeteroKV)
    tables = {**presets.CONSTANTS, **presets.BLOCKS}

    assert tables == {name: value for name, value in PUBLIC.items() if isinstance(value, kinds)}
    assert tuple(formats.blocks()) == ("BFP4", "BFP8", "INT4_G128", *sorted(PAIRS))
    assert set(tables) <= set(formats.__all__)


def test_typed_names_are_in_the_tables() -> None:
    tables = {**presets.CONSTANTS, **presets.BLOCKS}
    typed = {kind: get_args(names) for kind, names in TYPED.items()}

    assert sorted(name for names in typed.values() for name in names) == sorted(tables)
    assert all(type(tables[name]) is kind for kind, names in typed.items() for name in names)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_masked_arrays_are_rejected_by_every_format(dtype: type) -> None:
    """A masked value would decide its neighbours' codes."""
    presets = [getattr(formats, name) for name in formats.__all__]
    for fmt in (each for each in presets if hasattr(each, "encode") and not isinstance(each, type)):
        with pytest.raises(RefusedType, match="must not be a masked array, which hides values; fill it first"):
            fmt.encode(np.ma.masked_equal(np.ones((4, 64), dtype), 1))
