"""Experiments of `refemu study harmonia`: scores, saved factors, attention and channels, dataflows."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import Jit
from refemu.models.schemes.harmonia import search, smoothing
from refemu.models.schemes.scheme import silent
from refemu.models.scores import perplexity
from refemu.studies import steps
from refemu.studies.evaluation import Setting, score
from refemu.studies.harmonia import experiments
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench


def setting(tokens: int = 48, win: int = 12) -> Setting:
    return Setting(models.load("tiny"), tuple(i * 5 % 251 for i in range(tokens)), win)


def bench(folder: Path) -> Bench:
    return Bench(models.load("tiny"), Jit(), ResultStore("harmonia", folder))


@pytest.mark.parametrize("prefill", [0, 8])
def test_scores_are_perplexities(prefill: int, tmp_path: Path) -> None:
    names = ("fp16", "harmonia-kv8", "harmonia-kv4:offline=false")
    place = dataclasses.replace(setting(), prefill=prefill)
    results = steps.run(experiments.steps(place, (), names), bench(tmp_path)).results

    for name in names:
        alone = perplexity.perplexity(models.prepare("tiny", name), place.ids, 12, prefill)
        assert score(place, results, name).losses == alone.windows


def test_points_are_those_of_the_figures() -> None:
    """[harmonia Fig. 4, 5, 8, 10; Tables I, II]"""
    names = list(experiments.POINTS.values())
    bits = [(config.act_mantissa, config.high, config.low) for config in map(schemes.parse, names[1:])]  # type: ignore

    assert names[0] == "fp16" and len(set(names)) == len(names) == 14
    assert bits[:7] == [(8, 8, 8), (6, 6, 6), (5, 5, 5), (4, 4, 4), (8, 6, 6), (8, 5, 5), (8, 4, 4)]
    assert bits[7:] == [(8, 8, 8), (8, 4, 4), *[(8, 8, 4)] * 4]


def test_encoders_are_rejected() -> None:
    with pytest.raises(Refused, match="study harmonia: tiny-encoder is an encoder"):
        experiments.steps(Setting(models.load("tiny-encoder"), (), 12), experiments.PARTS)


def test_mantissas_are_measured_on_half_of_the_windows() -> None:
    listed = experiments.steps(setting(), ("mantissas", "cache"))
    count: dict[str, int] = {}
    for step in listed:
        count[str(step.depends["scheme"])] = count.get(str(step.depends["scheme"]), 0) + 1

    assert len(experiments.halved(setting()).windows) == 2 and len(setting().windows) == 4
    for names, windows in ((experiments.MANTISSAS + experiments.WIDE, 2), (experiments.CACHE, 4)):
        assert all(count[schemes.text(schemes.parse(name))] == windows for name in names)


def test_factors_are_learned_once_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "shipped", lambda name: None)
    config: Any = experiments.with_tokens("harmonia-kv4", 32)
    count: list[str] = []
    monkeypatch.setattr(search, "learn", lambda *words: count.append("") or smoothing.ones(words[0].config))
    for _ in range(2):
        factors = experiments.factors(bench(tmp_path), config, silent)
        assert factors is not None and (factors.s == 1).all()

    assert len(count) == 1
    assert experiments.factors(bench(tmp_path), schemes.parse("harmonia-kv8"), silent) is None
    other = experiments.with_tokens("harmonia-kv4", 33)
    experiments.factors(bench(tmp_path), other, silent)
    assert len(count) == 2


def test_shares_of_attention_and_peaks_of_channels(tmp_path: Path) -> None:
    layers: Any = steps.run(experiments.steps(setting(128, 128), ("attention",)), bench(tmp_path)).results["attention"]
    sizes: Any = models.load("tiny").config

    assert len(layers) == sizes.blocks
    for layer in layers:
        shares = list(zip(layer["initial"], layer["local"], strict=True))
        assert len(shares) == sizes.heads and all(a > 0 and b > 0 and a + b < 1.0001 for a, b in shares)
        assert len(layer["k"]) == len(layer["v"]) == len(layer["online"]) == sizes.kv_heads * sizes.head_dim
        assert layer["chosen"]
        same = set(range(len(layer["k"]))) - set(layer["chosen"])
        assert all(layer["online"][channel] == layer["k"][channel] for channel in same)


def test_text_within_first_and_latest_tokens_shows_nothing() -> None:
    assert experiments.steps(setting(96, 96), ("attention",)) == []


def test_fetches_are_the_formula_for_whole_tiles(tmp_path: Path) -> None:
    """[harmonia §IV-D]: K/k (M N) + N K, and M/m (N K) + M N."""
    rows: Any = steps.run(experiments.steps(setting(), ("dataflows",)), bench(tmp_path)).results["dataflows"]
    inner, tile = experiments.INNER, experiments.TILE

    assert len(rows) == 2 * len(experiments.ROWS)
    for row in rows:
        first = inner // tile * row["rows"] * inner + inner * inner
        second = -(-row["rows"] // tile) * inner * inner + row["rows"] * inner
        assert row["elements"] == (first if row["dataflow"] == 1 else second)
