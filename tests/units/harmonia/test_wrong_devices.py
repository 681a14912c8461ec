"""Faulty devices of Harmonia that earlier golden sets missed, each detected by rows of the present ones."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.faults import use
from refemu.golden.grade import device
from refemu.units.unit import Config
from tests.golden import detecting

pytestmark = pytest.mark.committed

ALIGNERS = [f"bfp_aligner-{config}" for config in units.find("bfp_aligner").configs]
CLOCKED = [
    f"{name}-{config}"
    for name in ("bfp_accumulator", "bfp_converter", "bfp_pe", "k_offset", "v_grouper", "fdgf")
    for config in units.find(name).configs
]
CORES = [f"harmonia_core-{config}" for config in units.find("harmonia_core").configs]


def low_mantissa_bit(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> Mapping[str, np.ndarray]:
    """Mantissas whose upper bits are constant."""
    return {"mantissa": result.mantissa & 1 | 0x554}


@pytest.mark.parametrize("name", [*ALIGNERS, *CLOCKED, *CORES])
def test_the_right_device_passes(name: str) -> None:
    assert detecting.right(detecting.drawn(name))


@pytest.mark.parametrize("name", ALIGNERS)
def test_mantissa_with_constant_upper_bits_is_detected(name: str) -> None:
    """AUD-vec-1: only bit 0 was compared."""
    assert "paper" in {id.partition("/")[0] for id in detecting.by(detecting.drawn(name), low_mantissa_bit)}


@pytest.mark.parametrize("name", ALIGNERS)
def test_every_bit_of_a_mantissa_takes_both_values(name: str) -> None:
    """AUD-vec-3: 80 of 88 bits of the mantissas did not."""
    rows = detecting.drawn(name)
    words, counts = rows.outputs["out.mantissa"], rows.care["out.mantissa"]
    bits = units.find("bfp_aligner").ports(rows.config).outputs
    wide = next(port.bits for port in bits if port.name == "mantissa")
    for bit in range(wide):
        seen, cared = words >> bit & 1, (counts >> bit & 1).astype(np.bool_)
        for value in (0, 1):
            assert (cared & (seen == value)).any(axis=0).all(), (bit, value)


@pytest.mark.parametrize("name", CLOCKED)
def test_device_without_reset_is_detected(name: str) -> None:
    """AUD-vec-2: the converters' cases ended on `last`, and no set started a busy fdgf."""
    rows = detecting.drawn(name)
    assert detecting.ids(rows, device.kept(rows))


def unnoticed(name: str) -> list[str]:
    """Inputs that may stay unconnected; a device that rejects the values that it then sees shows nothing."""
    rows = detecting.drawn(name)
    silent = []
    for fault in use.faults(rows):
        if fault.id.startswith("unconnected/"):
            with suppress(Refused):
                silent += [] if fault.wrong(rows).any() else [fault.id]
    return silent


@pytest.mark.parametrize("name", [name for name in CLOCKED if "fdgf" not in name])  # it rejects tiles of size 0
def test_unconnected_input_is_detected(name: str) -> None:
    assert unnoticed(name) == []


@pytest.mark.parametrize("name", ["bfp_pe-paper", "bfp_accumulator-paper"])
def test_every_flag_takes_both_values(name: str) -> None:
    """AUD-vec-3: three of three did not; arithmetic that is exact raises none."""
    rows = detecting.drawn(name)
    flags = rows.outputs["out.flags"]
    wide = next(port.bits for port in rows.unit.ports(rows.config).outputs if port.name == "flags")
    assert [bit for bit in range(wide) if len(np.unique(flags >> bit & 1)) < 2] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("harmonia_core-score", "scores are scaled in FP16"),
        ("bfp_pe-paper", "the nibbles' sums are converted separately, then added in FP32"),
        ("bfp_accumulator-paper", "the nibbles' sums are converted separately, then added in FP32"),
    ],
)
def test_wrong_order_of_steps_is_detected(name: str, says: str) -> None:
    """AUD-harmonia-2 and 5: scales and the join of nibbles in another order."""
    (wrong,) = (each for each in units.find(name.partition("-")[0]).variants if each.says == says)
    assert detecting.by(detecting.drawn(name), wrong)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("placed", "the first rows are the window"),
        ("placed", "rows have consecutive positions"),
        ("placed", "rotation is 'half'"),
        ("k", "rotation is 'interleaved'"),
        ("k", "keys of the window are not shifted"),
        ("decode", "keys after the window are not shifted"),
        ("decode", "the first rows of every product choose its offsets"),
        ("values", "all groups have the mode of the first"),
        ("values", "all rows of a pass see the codes of the first"),
        ("keys", "all rows of a pass see the codes of the first"),
        ("keys", "codes is 'rows'"),
        ("bias", "biases are not added"),
        ("bias", "biases are added in FP32 before FP2Half"),
        ("bias", "activation is 'silu'"),
        ("linear", "activation is 'gelu_tanh'"),
        ("linear", "lanes past the end of a head repeat its last element"),
        ("keys", "lanes past the end of a head repeat its last element"),
    ],
)
def test_core_ignoring_port_or_option_is_detected(config: str, says: str) -> None:
    """AUD-harmonia-1 to 3: windows by row, offsets left in, other pairs, one width, no bias, lanes that are not 0."""
    (wrong,) = (each for each in units.find("harmonia_core").variants if each.says == says)
    assert detecting.by(detecting.drawn(f"harmonia_core-{config}"), wrong)
