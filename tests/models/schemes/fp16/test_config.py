"""Parameters of scheme `fp16`, and rejected ones."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.models.schemes.fp16.config import Fp16Config


def test_runtime_sums_in_fp32_and_rounds_residual_stream() -> None:
    assert repr(Fp16Config()) == "Fp16Config(acc='fp32', residual='fp16')"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"acc": "fp64"}, "fp16: acc must be one of 'fp32', 'fp32_fma', 'fp16', 'fp16_fma', got 'fp64'"),
        ({"residual": None}, "fp16: residual must be one of 'fp16', 'fp32', got None"),
    ],
)
def test_invalid_parameters_are_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        Fp16Config(**change)
