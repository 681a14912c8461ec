"""The quantizer block: every stage of Eq. (2) at a port, event by event, equal to the format."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.formats import Affine
from refemu.formats.leankv.affine import PRESETS
from refemu.units.leankv import kv_quantizer
from refemu.units.leankv.kv_quantizer import BITS, KvQuantizer

RUNS = [pytest.param(kv_quantizer.run, id="unit"), pytest.param(kv_quantizer.UNIT.run_compiled, id="compiled")]
finite = st.integers(0, (1 << 16) - 1).map(lambda word: word if word & 0x7C00 != 0x7C00 else word ^ 0x4000)
groups = st.lists(st.one_of(finite, st.sampled_from([0, 0x8000, 1, 0x3C00])), min_size=16, max_size=16)


def halves(*values: float) -> np.ndarray:
    return np.array(values, np.float16).view(np.uint16)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("preset", "zero", "inv"), [("paper", 0x3E00, 0), ("diffkv", 0xBE00, 0x3F99999A)])
def test_the_worked_group(run: Any, preset: str, zero: int, inv: int) -> None:
    """[leankv Eq. (2)] D-leankv-1, D-leankv-2: step 5/6, codes 0 2 2 3; only `diffkv` has a reciprocal."""
    result = run(np.tile(halves(-1.5, 0, 0.5, 1), 4), 2, features=16, preset=preset)

    assert [int(v) for v in (result.mn, result.mx)] == [0xBFC00000, 0x3F800000]
    assert np.uint32(result.s32).view(np.float32) == np.float32(2.5) / np.float32(3)
    assert (int(result.scale), int(result.zero), int(result.inv32)) == (0x3AAB, zero, inv)
    assert result.words.tolist() == [0xE8E8, 0xE8E8, 0, 0, 0, 0, 0, 0] and int(result.status) == 0


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stored", ["unrounded", "stored"])
@settings(deadline=None, max_examples=40)
@given(x=groups, bits=st.sampled_from(BITS))
def test_stages_are_those_of_the_format(preset: str, stored: str, x: list[int], bits: int) -> None:
    """D-leankv-3, D-leankv-5, D-leankv-7, D-leankv-8: Python floats one by one against arrays."""
    base = Affine.preset(preset, bits)
    tensor = Affine(bits, 1, base.zero, base.quant_div, stored).encode(np.array(x, np.uint16).view(np.float16))
    result = kv_quantizer.run(x, bits, features=16, preset=preset, quantize_with=stored)

    assert result.words[:bits].tolist() == tensor.words().tolist()
    assert all(
        int(getattr(result, name)) == int(getattr(tensor, name)[0])
        for name in ("s32", "inv32", "scale", "zero", "status")
    )


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("preset", "divisions", "products"), [("paper", 17, 0), ("diffkv", 2, 16)])
def test_counters_of_one_group(run: Any, preset: str, divisions: int, products: int) -> None:
    """Two comparisons per element after the first; a reciprocal saves a division per element."""
    result = run(halves(*range(16)), 8, features=16, preset=preset)

    counted = result.comparisons, result.divisions, result.multiplications, result.roundings
    assert counted == (30, divisions, products, 16)


def test_events_of_one_group() -> None:
    """`minmax` per element, `scale`, `word` per pack, in ascending order."""
    states = list(KvQuantizer(16).steps(halves(*range(16)), 4))

    assert [s.event for s in states] == ["minmax"] * 16 + ["scale"] + ["word"] * 4
    assert [s.element for s in states[:16]] == list(range(1, 17)) and [s.written for s in states[17:]] == [1, 2, 3, 4]
    assert [np.uint32(s.mx).view(np.float32) for s in states[:3]] == [0, 1, 2]
    for run in (kv_quantizer.run, kv_quantizer.UNIT.run_compiled):
        result = run(np.tile(halves(*range(16)), (4, 1)), [1, 2, 4, 8], features=16)
        assert result.element.tolist() == [16] * 4 and result.written.tolist() == [1, 2, 4, 8]


def test_no_input_while_group_is_on_its_way() -> None:
    device = KvQuantizer(16)
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        device.step()
    device.step(halves(*range(16)).tolist(), 4)
    with pytest.raises(Refused, match=r"step takes no inputs after event \w+"):
        device.step(halves(*range(16)).tolist(), 4)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("x", "bits", "message"),
    [
        (halves(*[0] * 15, np.nan), 4, r"x must be a finite fp16, got 0x7e00 at index \(15,\)"),
        (halves(*[0] * 15, -np.inf), 4, "x must be a finite fp16, got 0xfc00"),
        (halves(*[0] * 16), 3, "bits must be 1, 2, 4 or 8, got 3"),
    ],
)
def test_kv_quantizer_rejects_invalid_inputs(run: Any, x: np.ndarray, bits: int, message: str) -> None:
    """D-leankv-9."""
    with pytest.raises(Refused, match=message):
        run(x, bits, features=16)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"features": 20}, "features must be a multiple of 16, got 20"),
        ({"features": 8}, "features must be in"),
        ({"preset": "repo"}, "preset must be one of 'paper', 'diffkv'"),
    ],
)
def test_kv_quantizer_rejects_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        KvQuantizer(**parameters)
