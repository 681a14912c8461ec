"""Logits and centroids of the schemes of KLLM, Harmonia and LeanKV are the same bits in every environment."""

import pytest

from tests.test_environment import MATRIX, ONE, probe, skip_without

#: heads of `tiny` are 16 wide, so its pages need other groups
LEANKV = "leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1"
SCHEMES = ",".join(one.replace(",", ";") for one in ("kllm-a4:calibration_windows=1", "harmonia-kv4", LEANKV))


@pytest.fixture(scope="module")
def native() -> dict[str, str]:
    return probe("tiny", "jit", SCHEMES, "--centroids", **ONE)["hashes"]


@pytest.mark.parametrize("name", ["numpy baseline", "BLAS Nehalem, two threads", "numba generic", "portable rounding"])
def test_logits_and_centroids_are_the_same_bits(name: str, native: dict[str, str]) -> None:
    skip_without(name)
    variables, in_force = MATRIX[name]
    shown = probe("tiny", "jit", SCHEMES, "--centroids", **variables)

    assert in_force(shown["evidence"])
    assert len(native) == 4
    assert shown["hashes"] == native
