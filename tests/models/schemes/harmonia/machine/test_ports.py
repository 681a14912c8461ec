"""Arrays at the ports of Harmonia's units."""

import dataclasses

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.machine.ports import FREE, Ports
from tests.oracles.harmonia import bfp


@pytest.mark.parametrize("columns", [1, 3])
def test_a_port_of_one_lane_takes_a_column(columns: int) -> None:
    """Activations of 1 times weights of 1, in units of the exponents."""
    ports = Ports(models.prepare("tiny", "harmonia-kv8"), 0)
    config = ports.core("final", 1, 1, columns)
    one = np.ones((2, 1), np.int64)
    wide = np.ones((2, columns), np.int64)
    inputs = {"a_sign": 0 * one, "a_mag": 128 * one, "a_exp": 15 * one, "b": wide, "b_sign": 0 * wide}

    answer = ports.evaluate("harmonia_core", config, inputs | {"b_exp": 0 * wide, "w_scale": 0x3C00 * wide})

    assert np.ravel(answer.y).tolist() == [0x3C00] * 2 * columns


@pytest.mark.parametrize(
    ("scheme", "kind"), [("harmonia-kv4", "mixed"), ("harmonia-kv8", "bfp8"), ("harmonia-kv4-naive", "bfp4")]
)
def test_keys_are_of_the_widths_of_the_scheme(scheme: str, kind: str) -> None:
    assert Ports(models.prepare("tiny", scheme), 0).kv_type == kind


def test_codes_are_those_of_the_oracle() -> None:
    ports = Ports(models.prepare("tiny", "harmonia-kv4"), 2)
    words = np.random.default_rng(1).normal(size=(2, 40)).astype(np.float16).view(np.uint16)
    codes = ports.encode(words, m=4)

    groups = [bfp.encode(row, 4) for row in words.tolist()]
    assert codes.exponent.tolist() == [[group.exponent for group in row] for row in groups]
    assert codes.mantissa[1, :32].tolist() == groups[1][0].mantissa
    assert ports.full("q") == "blk.2.q"


@pytest.mark.parametrize("field", ["act_mantissa=6", "product=fp16", "offset_sign=unsigned", "high=9,low=4"])
def test_another_datapath_is_rejected(field: str) -> None:
    prepared = models.prepare("tiny", f"harmonia-kv8:{field}")
    with pytest.raises(Refused, match="the paper's datapath and 4 or 8 bits of KV"):
        Ports(prepared, 0)


def test_what_is_free_is_parameter_of_scheme() -> None:
    """All others must have the paper's value, a new one too."""
    assert {field.name for field in dataclasses.fields(HarmoniaConfig)} > FREE
