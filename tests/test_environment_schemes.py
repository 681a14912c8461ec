"""Logits and centroids of the schemes of KLLM, Harmonia and LeanKV are the same bits in every environment."""

from pathlib import Path

import pytest

from tests.test_environment import MATRIX, code, probe, skip_without, variables_of

__all__ = ["code"]  # a fixture

#: heads of `tiny` are 16 wide, so its pages need other groups
LEANKV = "leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1"
SCHEMES = ",".join(one.replace(",", ";") for one in ("kllm-a4:calibration_windows=1", "harmonia-kv4", LEANKV))


@pytest.fixture(scope="module")
def native(code: Path) -> dict[str, str]:
    return probe("tiny", "jit", SCHEMES, "--centroids", **variables_of("native, one thread", code))["hashes"]


@pytest.mark.parametrize("name", ["numpy baseline", "BLAS Nehalem, two threads", "numba generic", "portable rounding"])
def test_logits_and_centroids_are_the_same_bits(name: str, native: dict[str, str], code: Path) -> None:
    skip_without(name)
    shown = probe("tiny", "jit", SCHEMES, "--centroids", **variables_of(name, code))

    assert MATRIX[name][1](shown["evidence"])
    assert len(native) == 4
    assert shown["hashes"] == native
