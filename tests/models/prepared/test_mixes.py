"""Parts of a mix use only cached tensors that do not depend on other parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models.backend import find
from refemu.models.prepared import prepared_cache as prepared_caches
from refemu.models.schemes import model_share
from refemu.models.schemes.fp16.layers import RECIPE
from tests.models.prepared.test_prepared_cache import home as home
from tests.models.prepared.test_prepared_cache import kept, toy
from tests.models.prepared.test_schemes import TEXT

OLIVE = "olive-4:low=60,high=140,step=5"
FLOAT = f"{OLIVE},calibration=float"
KLLM = "kllm-a4:calibration_windows=1,calibration_tokens=32"
HARMONIA = "harmonia-kv4:calib_tokens=32"
LEANKV = "leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4"
#: mixes with what their parts are alone
MIXES = {
    f"{OLIVE}+harmonia-kv4-naive": [OLIVE, "harmonia-kv4-naive"],
    f"{OLIVE}+{HARMONIA}": [OLIVE, HARMONIA],
    f"{OLIVE.replace(':', '@0:')}+{KLLM}+fp16": [OLIVE, KLLM, "fp16"],
    f"{FLOAT}+{HARMONIA}": [FLOAT, HARMONIA],
    f"{KLLM}+harmonia-kv4-naive": [KLLM, "harmonia-kv4-naive"],
    f"{KLLM}+{HARMONIA}": [KLLM, HARMONIA],
    f"harmonia-kv4-naive+{HARMONIA}": ["harmonia-kv4-naive", HARMONIA],
    "harmonia-kv4-naive+harmonia-kv4-naive:score_scale=fold": [
        "harmonia-kv4-naive",
        "harmonia-kv4-naive:score_scale=fold",
    ],
    f"fp16+{HARMONIA}": ["fp16", HARMONIA],
    f"fp16+{LEANKV}": ["fp16", LEANKV],
}


def answer(model: Any, scheme: str) -> bytes:
    prepared = models.prepare(model, scheme, calibration=TEXT)
    return models.run(model, TEXT[:20], scheme=prepared).logits.tobytes()


def fresh(folder: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Results without a cache."""
    monkeypatch.setenv("REFEMU_PREPARED", "0")
    logits = answer(toy(folder), scheme)
    monkeypatch.setenv("REFEMU_PREPARED", "1")
    return logits


@pytest.mark.parametrize("mix", MIXES)
def test_part_never_uses_cache_from_another_attention(
    mix: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = fresh(tmp_path, mix, monkeypatch)
    for scheme in MIXES[mix]:
        answer(toy(tmp_path), scheme)
    assert kept(home)

    assert answer(toy(tmp_path), mix) == wanted
    assert answer(toy(tmp_path), mix) == wanted, "with what the mix itself kept"


@pytest.mark.parametrize("mix", MIXES)
def test_single_scheme_never_uses_cache_of_a_mix(mix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(toy(tmp_path), mix)

    for scheme in MIXES[mix]:
        assert answer(toy(tmp_path), scheme) == fresh(tmp_path, scheme, monkeypatch), scheme


def test_mix_and_scheme_share_cached_equal_layers(tmp_path: Path, home: Path) -> None:
    answer(toy(tmp_path), "fp16")
    before = kept(home)
    answer(toy(tmp_path), f"fp16+{LEANKV}")

    assert kept(home) == before and len(before) == 1


def test_changed_weights_are_not_cached(tmp_path: Path, home: Path) -> None:
    model = toy(tmp_path)
    half = model_share.changed(model, b"half", lambda name, tensor: tensor * np.float32(0.5))

    assert prepared_caches.prepared_cache(model, find("jit"), RECIPE).folder is not None
    assert prepared_caches.prepared_cache(half, find("jit"), RECIPE).folder is None
