"""What decoders and encoders share under the OliVe schemes: names and widths of linear layers, groups, candidates."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import NUMPY
from refemu.models.encoder.config import LINEARS
from refemu.models.schemes.olive.config import OliveConfig
from refemu.models.schemes.olive.layers import candidates, linear_name, tensor_name, widths
from refemu.models.schemes.scheme import GROUPS
from refemu.models.taps import Watch
from tests.models.schemes.olive.test_linear import BACK, BEYOND, overflowing


@pytest.mark.parametrize(("groups", "count"), [(GROUPS, 7), (LINEARS, 6)], ids=["decoder", "encoder"])
def test_every_linear_layer_has_width_of_scheme(groups: tuple[tuple[str, ...], ...], count: int) -> None:
    found = widths(range(2), OliveConfig(), (), groups)

    assert found.pop("lm_head") is None
    assert [4] * 2 * count == list(found.values())


def test_a_kind_or_a_layer_can_be_named() -> None:
    config = OliveConfig(eight_bit=("down", "blk.0.q"), skip=("blk.1.o", "lm_head"))
    found = widths(range(2), config, ("blk.1.up",), LINEARS)

    assert {name for name, bits in found.items() if bits == 8} == {"blk.0.down", "blk.1.down", "blk.0.q", "blk.1.up"}
    assert {name for name, bits in found.items() if bits is None} == {"blk.1.o", "lm_head"}


@pytest.mark.parametrize(
    ("eight_bit", "skip", "layer"),
    [
        (("lm_head",), ("lm_head",), "lm_head"),
        (("down",), ("down",), "blk.0.down"),
        (("down",), ("o", "blk.1.down"), "blk.1.down"),
        (("blk.1.down",), ("down",), "blk.1.down"),
    ],
)
def test_layer_both_skipped_and_eight_bit_is_rejected(
    eight_bit: tuple[str, ...], skip: tuple[str, ...], layer: str
) -> None:
    message = rf"olive: eight_bit names {layer}, which skip={'[+]'.join(skip)} computes .* \(skip=none skips"
    with pytest.raises(Refused, match=message):
        widths(range(2), OliveConfig(eight_bit=eight_bit, skip=skip), (), LINEARS)
    assert widths(range(2), OliveConfig(eight_bit=eight_bit, skip=()), (), LINEARS)[layer] == 8
    assert widths(range(2), OliveConfig(skip=skip), (), LINEARS)[layer] is None


def test_an_encoder_has_no_gate() -> None:
    with pytest.raises(Refused, match="unknown linear layer 'gate'"):
        widths(range(2), OliveConfig(eight_bit=("gate",)), (), LINEARS)


def test_output_matrix_has_name_of_its_own() -> None:
    assert (linear_name(-1, "embed"), tensor_name(-1, "embed")) == ("lm_head", "embed")
    assert linear_name(3, "q") == tensor_name(3, "q") == "blk.3.q"


def test_sums_that_leave_32_bits_are_counted() -> None:
    """D-olive-33."""
    layers: Any = models.prepare("tiny", "olive-8:act_bits=none", NUMPY)
    part, watch = overflowing("wrap", NUMPY), Watch()
    outputs = layers.outputs(part, np.concatenate([BEYOND, BACK, BEYOND]), watch)

    assert outputs.tolist() == [[-(2.0**31)], [2.0**30], [-(2.0**31)]]
    assert watch.counters == {"overflowed_outputs": 2}


def test_the_preset_chooses_the_base_of_the_search() -> None:
    """D-olive-26."""
    assert candidates(OliveConfig(), 4).base == "sigma"
    assert candidates(OliveConfig(preset="repo"), 8).base == "mean_sigma"
