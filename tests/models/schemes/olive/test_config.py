"""Parameters of the OliVe schemes: pair formats by preset, bits and types. Refusals are in test_registry.py."""

import dataclasses

import pytest

from refemu.arith.checks import Refused
from refemu.formats.olive.ovp import OVP_FLINT4, OVP_FLINT4_REPO, OVP_INT4, OVP_INT4_REPO, OVP_INT8, OVP_INT8_REPO
from refemu.models.schemes.olive.config import EXPERIMENTS, OliveConfig, OliveStudyConfig


@pytest.mark.parametrize(
    ("config", "narrow", "wide"),
    [
        (OliveConfig(), (OVP_INT4, OVP_FLINT4), (OVP_INT8,)),
        (OliveConfig(types=("flint",)), (OVP_FLINT4,), (OVP_INT8,)),
        (OliveConfig(preset="repo", types=("flint", "int")), (OVP_FLINT4_REPO, OVP_INT4_REPO), (OVP_INT8_REPO,)),
    ],
    ids=["paper", "one type", "repo"],
)
def test_tensor_chooses_among_types_at_four_bits_alone(config: OliveConfig, narrow: tuple, wide: tuple) -> None:
    """D-olive-29."""
    assert (config.formats(4), config.formats(8)) == (narrow, wide)


def test_baselines_have_the_same_types_without_outliers() -> None:
    [int4, flint4] = OliveConfig(outliers=False).formats(4)

    assert int4.outlier is flint4.outlier is None
    assert dataclasses.replace(int4, outlier=OVP_INT4.outlier) == OVP_INT4
    assert dataclasses.replace(flint4, outlier=OVP_FLINT4.outlier) == OVP_FLINT4


def test_every_experiment_is_a_configuration() -> None:
    assert {OliveStudyConfig(experiment=name).experiment for name in EXPERIMENTS} == set(EXPERIMENTS)


def test_sums_beyond_32_bits_wrap_or_saturate() -> None:
    """No other rule: a layer would compute `refuse` as `wrap`."""
    with pytest.raises(Refused, match="olive: overflow must be one of 'wrap', 'saturate', got 'refuse'"):
        OliveConfig(overflow="refuse")  # type: ignore[arg-type]
