"""Configurations of the Harmonia schemes: registered ones, rejected ones, sweeps."""

import dataclasses
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.schemes.harmonia.cache import allocation
from refemu.models.schemes.harmonia.config import KV4, KV4_NAIVE, KV8, HarmoniaConfig

TEXT = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire")


def test_registered_schemes() -> None:
    """[harmonia Tables I, II] D-harmonia-38: smoothing belongs to the cache of 4 bits. D-harmonia-19."""
    found = (KV8, KV4, KV4_NAIVE)
    rows = [(config.act_mantissa, config.high, config.low, config.offline, config.online) for config in found]
    names = ["harmonia-kv8", "harmonia-kv4", "harmonia-kv4-naive"]

    assert rows == [(8, 8, 8, False, False), (8, 8, 4, True, True), (8, 4, 4, False, False)]
    assert {config.prefill_window for config in found} == {"query"}  # D-harmonia-19: local tokens are each query's
    assert [schemes.parse(name) for name in names] == list(found)
    assert [schemes.text(config) for config in found] == names


def test_formats_follow_the_preset() -> None:
    """D-harmonia-6, D-harmonia-7, D-harmonia-14: what the presets set."""
    exact = dataclasses.replace(KV4, preset="exact", zero_point=True)

    assert (KV4.partial, KV4.format(4).name) == ("fp16", "bfp4_g32")
    assert (exact.partial, exact.format(8).name) == ("fp32", "bfp8_g32_canonical")
    assert (KV4.weight_format().name, exact.weight_format().name) == ("int4_g128", "int4_g128_zp")
    assert allocation(dataclasses.replace(KV4, group=64)).group == 64


SWEEPS = [
    "act_mantissa=4,high=4,low=4",
    "act_mantissa=6,high=6,low=6,weights=fp16",
    "act_mantissa=11,high=11,low=11",
    "act_mantissa=1,high=2,low=1",
    "group=16",
    "group=64",
    "group=128",
    "zero_point=true,preset=exact",
    "saturate=true",
    "special=saturate",
    "special=hw",
    "subnormals=flush",
    "rounding=half_away",
    "residual=fp32",
    "n_initial=0,n_local=0",
]


@pytest.mark.long
@pytest.mark.parametrize("change", SWEEPS)
def test_every_point_of_a_sweep_is_a_configuration(change: str) -> None:
    """[harmonia §II-C, Fig. 4, Fig. 5]; D-harmonia-32 for the residual stream. Both backends give its bits."""
    found = [
        models.run("tiny", TEXT[:40], f"harmonia-kv4:offline=false,{change}", backend=backend).logits
        for backend in ("jit", "numpy")
    ]

    assert found[0].tobytes() == found[1].tobytes()


def test_the_residual_stream_is_fp16_or_not() -> None:
    """D-harmonia-32."""
    found = {models.run("tiny", TEXT, f"harmonia-kv8:residual={kind}").logits.tobytes() for kind in ("fp16", "fp32")}

    assert len(found) == 2


REFUSED = [
    ({"act_mantissa": 12}, Refused, r"act_mantissa must be in \[1, 11\], got 12"),
    ({"high": 0}, Refused, r"high must be in \[1, 11\], got 0"),
    ({"low": 9}, Refused, r"low must be in \[1, 8\], got 9"),
    ({"low": 4.0}, RefusedType, "low must be an int"),
    ({"group": 48}, Refused, "group must be one of"),
    ({"weights": "int8"}, Refused, "weights must be one of"),
    ({"preset": "fast"}, Refused, "preset must be one of"),
    ({"n_local": -1}, Refused, "n_local must be in"),
    ({"n_initial": -1}, Refused, "n_initial must be in"),
    ({"calib_tokens": 31}, Refused, r"calib_tokens must be in \[32"),
    ({"offset_k": -1}, Refused, "offset_k must be in"),
    ({"smoothing": 3}, Refused, "smoothing must be the path of a file, got 3"),
    ({"scale_per": 128, "group": 64}, Refused, "scale_per=128 adds groups of at most 32 values, got group=64"),
]


@pytest.mark.parametrize(("change", "error", "message"), REFUSED, ids=lambda given: str(given)[:30])
def test_invalid_parameters_are_rejected(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        HarmoniaConfig(**change)


def test_models_without_such_a_cache_are_rejected() -> None:
    """Encoders; more offsets than a KV head or a layer has channels."""
    with pytest.raises(Refused, match="tiny-encoder is an encoder"):
        models.prepare("tiny-encoder", "harmonia-kv8")
    with pytest.raises(Refused, match=r"offset_k must be in \[0, 32\], got 33"):
        models.run("tiny", TEXT, "harmonia-kv4:offline=false,offset_k=33")


def test_config_repr() -> None:
    assert repr(KV8).startswith("HarmoniaConfig(act_mantissa=8, high=8, low=8, group=32")
