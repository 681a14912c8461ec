"""The table and the figure of `refemu study mix`."""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu.studies.evaluation import Score, Setting
from refemu.studies.mix import experiments
from refemu.studies.mix.experiments import ATTENTION, LINEAR, PAIRS, Mixed
from refemu.studies.output import scores
from refemu.studies.output.figure import Figure, Panel, Series
from refemu.studies.output.table import Column, Table

FIGURES = {"bits": "pairs"}
BITS = Column(
    "kv_bits", "number", "KV bits", "bits of a value in the KV cache, with scales, exponents, scores and positions"
)
X = "bits of a value in the KV cache"


def tables(
    setting: Setting, results: Mapping[str, Any], parts: Sequence[str], listed: Sequence[str] = ()
) -> list[Table]:
    """A row for every scheme; changes are relative to the first. listed: schemes instead of PAIRS."""
    names = listed or (PAIRS if "pairs" in parts else ())
    if not names:
        return []
    rows = [experiments.mixed(setting, results, name) for name in names]
    title = f"linear layers and attention of different schemes: {scores.about(setting)}"
    plain = scores.table("pairs", title, [("", row.score, rows[0].score) for row in rows])
    cells = tuple((*cell[1:], row.kv_bits) for cell, row in zip(plain.rows, rows, strict=True))
    return [Table("schemes" if listed else "pairs", title, (*plain.columns[1:], BITS), cells)]


def figures(setting: Setting, results: Mapping[str, Any], names: Sequence[str]) -> list[Figure]:
    """Some of FIGURES."""
    return [_bits(setting, results) for name in names if name == "bits"]


def _bits(setting: Setting, results: Mapping[str, Any]) -> Figure:
    """Perplexity of every pair, and the loss due to attention alone with each linear part."""
    rows = {name: experiments.mixed(setting, results, name) for name in PAIRS}
    first = rows[PAIRS[0]]
    pairs = tuple(_ratios(linear, _by_bits(rows, linear), first.score) for linear in LINEAR)
    alone = tuple(_changes(linear, _by_bits(rows, linear), rows[f"{linear}+fp16"].score) for linear in LINEAR)
    panels = (
        Panel("Linear part and attention", X, f"perplexity / that of {PAIRS[0]} (log)", pairs, "lines", log_y=True),
        Panel("The attention alone", X, "change over attention fp16, %", alone, "lines"),
    )
    bits = ", ".join(f"{name} {rows[f'{LINEAR[0]}+{name}'].kv_bits:.2f}" for name in ATTENTION)
    about = f"{scores.about(setting)} A curve for each linear part; bits by attention with {LINEAR[0]}: {bits}."
    return Figure("bits", "", "Perplexity by bits of the KV cache", panels, about)


def _by_bits(rows: Mapping[str, Mixed], linear: str) -> list[Mixed]:
    """The mixes of a linear part, by bits of the cache."""
    return sorted((rows[f"{linear}+{name}"] for name in ATTENTION), key=lambda row: row.kv_bits)


def _ratios(linear: str, rows: Sequence[Mixed], reference: Score) -> Series:
    """Perplexities over that of the reference, by bits."""
    ratios = scores.ratios(linear, [row.score.scheme for row in rows], [row.score for row in rows], reference)
    return Series(linear, tuple(row.kv_bits for row in rows), ratios.y, ratios.error)


def _changes(linear: str, rows: Sequence[Mixed], reference: Score) -> Series:
    """Changes of the perplexity in percent, paired by window, by bits."""
    changes = [row.score.over(reference) for row in rows]
    return scores.series(linear, [row.kv_bits for row in rows], changes)
