"""Results of searches, quantization and calibration are cached and give the bits of the first start."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.formats.compiled import groupint
from refemu.formats.olive.compiled import ovp_search
from refemu.models.schemes.harmonia import search
from refemu.models.schemes.kllm import calibrate
from refemu.models.schemes.olive.decoder import Olive
from tests.models.prepared.test_prepared_cache import home as home
from tests.models.prepared.test_prepared_cache import kept, toy

TEXT = list(range(2, 66))
OLIVE = "olive-4:low=90,high=110,step=10"
SCHEMES = [
    OLIVE,
    f"{OLIVE},n_eight_bit=3",
    f"{OLIVE},calibration=float",
    f"{OLIVE},act_bits=none",
    "harmonia-kv4-naive",
]


def answer(model: Any, scheme: str) -> tuple[bytes, dict[str, int]]:
    prepared = models.prepare(model, scheme, calibration=TEXT)
    run = models.run(model, TEXT[:20], scheme=prepared)
    return run.logits.tobytes(), run.counters


@pytest.mark.parametrize("scheme", [*SCHEMES, "olive-8:low=90,high=110,step=10", "harmonia-kv4-naive:weights=fp16"])
def test_second_start_has_equal_bits_to_uncached_run(
    scheme: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFEMU_PREPARED", "0")
    nothing = answer(toy(tmp_path), scheme)
    assert kept(home) == {}
    monkeypatch.setenv("REFEMU_PREPARED", "1")
    first, before = answer(toy(tmp_path), scheme), kept(home)
    second = answer(toy(tmp_path), scheme)

    assert nothing == first == second and kept(home) == before


def refuse(*arguments: Any, **options: Any) -> Any:
    raise AssertionError("searched again")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_second_start_searches_nothing(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = answer(toy(tmp_path), scheme)
    monkeypatch.setattr(ovp_search, "select", refuse)
    monkeypatch.setattr(groupint, "encode", refuse)

    assert answer(toy(tmp_path), scheme) == first


def test_other_tokens_are_another_search(tmp_path: Path, home: Path) -> None:
    model = toy(tmp_path)
    scales = []
    for text in (TEXT, TEXT[::-1], TEXT[:40]):
        prepared: Olive = models.prepare(model, OLIVE, calibration=text)  # type: ignore[assignment]
        scales.append([part.input.scale for part in prepared.parts() if part.input])

    assert len({tuple(map(float, each)) for each in scales}) > 1
    (inputs,) = [names for folder, names in kept(home).items() if folder.startswith("olive-inputs")]
    assert len(inputs) == 3


def test_weight_searches_are_shared_by_unrelated_settings(tmp_path: Path, home: Path) -> None:
    model = toy(tmp_path)
    for scheme in (OLIVE, f"{OLIVE},overflow=saturate", f"{OLIVE},act_bits=none", f"{OLIVE},calibration=float"):
        models.prepare(model, scheme, calibration=TEXT)

    assert len([folder for folder in kept(home) if not folder.startswith(("olive-inputs", "fp16"))]) == 1
    models.prepare(model, "olive-4:low=90,high=110,step=5", calibration=TEXT)
    assert len([folder for folder in kept(home) if not folder.startswith(("olive-inputs", "fp16"))]) == 2


def test_factors_are_learned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = answer(toy(tmp_path), "harmonia-kv4:calib_tokens=32")
    monkeypatch.setattr(search, "learn", refuse)

    assert answer(toy(tmp_path), "harmonia-kv4:calib_tokens=32") == first
    with pytest.raises(AssertionError, match="searched again"):
        answer(toy(tmp_path), "harmonia-kv4:calib_tokens=32,act_mantissa=6")


def test_codebooks_are_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = "kllm-a4:calibration_windows=1,calibration_tokens=32"
    first = answer(toy(tmp_path), scheme)
    monkeypatch.setattr(calibrate, "calibrate", refuse)

    assert answer(toy(tmp_path), scheme) == first
    with pytest.raises(AssertionError, match="searched again"):
        answer(toy(tmp_path), f"{scheme},outlier_percent=3")


def test_cached_weights_of_olive_equal_searched_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def weights() -> list[tuple[Any, ...]]:
        prepared: Olive = models.prepare(toy(tmp_path), OLIVE, calibration=TEXT)  # type: ignore[assignment]
        return [
            (w.name, w.format, w.tensor.code.tobytes(), w.scale.tobytes(), w.mse, w.grid().tobytes(), w.row_sum())
            for part in prepared.parts()
            for w in part.weights
        ]

    kept_first, kept_again = weights(), weights()
    monkeypatch.setenv("REFEMU_PREPARED", "0")
    fresh = weights()

    assert fresh == kept_first == kept_again
    for *_, grid, row_sum in fresh:
        assert row_sum <= np.abs(np.frombuffer(grid, np.int64)).sum()
