"""Tables and figures of `refemu study harmonia`, with the paper's values.

Paper: [harmonia §II-C Fig. 4, Fig. 5; §III-B Fig. 7, Fig. 8; §III-C Fig. 9, Fig. 10; §IV-D; Table I].
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from refemu.models import schemes
from refemu.studies import evaluation
from refemu.studies.evaluation import Score, Setting
from refemu.studies.harmonia import experiments
from refemu.studies.harmonia.experiments import BITS, CACHE, EVERYTHING, INNER, MANTISSAS, NONE, POINTS, TILE, WIDE
from refemu.studies.output import scores
from refemu.studies.output.figure import Figure, Line, Panel, Series
from refemu.studies.output.table import Column, Table

FIGURES = {
    "fig4": "mantissas",
    "fig5": "mantissas",
    "fig7": "attention",
    "fig8": "cache",
    "fig9": "attention",
    "fig10": "cache",
    "offsets": "attention",
    "dataflows": "dataflows",
}
#: perplexities on WikiText-2 with caches of 8 and of 4 bits [harmonia Table I]
STATED = {
    "Llama-7B": (5.78, 6.19),
    "Llama-13B": (5.18, 5.51),
    "Llama-2-7B": (5.59, 5.90),
    "Llama-2-13B": (4.96, 5.20),
    "OPT-6.7B": (10.96, 11.69),
}
MEANINGS = {
    **{scheme: meaning for meaning, scheme in POINTS.items()},
    **{
        scheme: f"all activations at {m} bits, groups of 128, FP16 weights [Fig. 4]"
        for scheme, m in zip(WIDE, (8, 5), strict=True)
    },
}
SMOOTHED = {
    "harmonia-kv4:online=false": "offline",
    "harmonia-kv4:offline=false": "online",
    "harmonia-kv4": "both",
}

_MASSES = (
    Column("layer", "integer", "layer", "block"),
    Column("initial", "number", "first 32", "attention on the first 32 tokens, mean over heads and queries", "%", 1),
    Column("local", "number", "latest 64", "attention on the latest 64 tokens", "%", 1),
    Column("rest", "number", "others", "attention on all others", "%", 1),
    Column("k_ratio", "number", "K, widest / median", "largest magnitude of the widest channel over the median one's"),
    Column("v_ratio", "number", "V, widest / median", "the same for values"),
    Column("offset", "number", "range left by offsets", "median over the chosen channels of the keys"),
)
_DATAFLOWS = (
    Column("rows", "integer", "M", "rows of A"),
    Column("column_major", "integer", "dataflow 1", "elements of A and B fetched, counted, column-major"),
    Column("row_major", "integer", "dataflow 2", "the same, row-major"),
    Column("formula_1", "number", "K/k (M N) + N K", "[harmonia §IV-D]", "", 0),
    Column("formula_2", "number", "M/m (N K) + M N", "[harmonia §IV-D]", "", 0),
)


def tables(
    setting: Setting,
    results: Mapping[str, Any],
    parts: Sequence[str],
    listed: Sequence[str] = (),
    tokens: int | None = None,
) -> list[Table]:
    """The tables of some parts. listed: schemes instead of the points."""
    output = []
    about = scores.about(setting)
    if listed:
        scored = [_score(setting, results, name, tokens) for name in listed]
        title = f"perplexity of schemes: {about}"
        output.append(
            scores.table("schemes", title, [(MEANINGS.get(item.scheme, ""), item, scored[0]) for item in scored])
        )
    elif "mantissas" in parts:
        half = experiments.halved(setting)
        scored = [_score(half, results, name, tokens) for name in (*MANTISSAS, *WIDE)]
        title = f"mantissa bits [harmonia Fig. 4, 5]: {scores.about(half)}"
        output.append(scores.table("mantissas", title, [(MEANINGS[item.scheme], item, scored[0]) for item in scored]))
    if not listed and "cache" in parts:
        output.append(_cache(setting, results, tokens))
    if "attention" in parts and "attention" in results:
        title = f"attention and channels of {setting.label}, one prompt [harmonia Fig. 7, 9, 10]"
        layers = [_masses(place, layer) for place, layer in enumerate(results["attention"])]
        output.append(Table("attention", title, _MASSES, tuple(layers)))
    if "dataflows" in parts:
        title = f"elements fetched for A (M x {INNER}) B ({INNER} x {INNER}) in tiles of {TILE} [harmonia §IV-D]"
        output.append(Table("dataflows", title, _DATAFLOWS, tuple(_flows(results))))
    return output


def _score(setting: Setting, results: Mapping[str, Any], name: str, tokens: int | None = None) -> Score:
    text = schemes.text(experiments.with_tokens(name, tokens))
    return replace(evaluation.score(setting, results, text), scheme=name)


def _cache(setting: Setting, results: Mapping[str, Any], tokens: int | None) -> Table:
    """Every point relative to 8 bits, and those with smoothing relative to none."""
    scored = {name: _score(setting, results, name, tokens) for name in CACHE}
    listed: list[tuple[str, Score, Score | None]] = []
    for name, item in scored.items():
        listed.append((MEANINGS[name], item, scored["harmonia-kv8"]))
        if name in SMOOTHED:
            listed.append((f"{SMOOTHED[name]} over no smoothing", item, scored[NONE]))
    naive = scored["harmonia-kv4-naive"]
    listed.append(("bit allocation over naive 4 bits [Fig. 8]", scored[NONE], naive))
    title = f"bits of the cache and smoothing, INT4 weights [harmonia Fig. 8, 10; Table I]: {scores.about(setting)}"
    return scores.table("cache", title, listed)


def _masses(place: int, layer: Mapping[str, Any]) -> tuple[Any, ...]:
    initial, local = (100 * evaluation.mean_of(layer[name]) for name in ("initial", "local"))
    widths = [max(layer[name]) / sorted(layer[name])[len(layer[name]) // 2] for name in ("k", "v")]
    left = sorted(_left(layer))
    return place, initial, local, 100 - initial - local, *widths, left[len(left) // 2]


def _left(layer: Mapping[str, Any]) -> list[float]:
    """Range of the chosen channels after the offsets, relative to before."""
    return [layer["online"][channel] / layer["k"][channel] for channel in layer["chosen"]]


def _flows(results: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    counts = {(row["rows"], row["dataflow"]): row["elements"] for row in results["dataflows"]}
    return [
        (
            rows,
            counts[rows, 1],
            counts[rows, 2],
            float(INNER / TILE * rows * INNER + INNER * INNER),
            float(rows / TILE * INNER * INNER + rows * INNER),
        )
        for rows in dict.fromkeys(rows for rows, _ in counts)
    ]


def figures(
    setting: Setting, results: Mapping[str, Any], names: Sequence[str], tokens: int | None = None
) -> list[Figure]:
    """Some of FIGURES."""
    output = []
    for name in names:
        if name in ("fig4", "fig5"):
            output.append(_mantissas(setting, results, name))
        elif name == "fig8":
            output.append(_fig8(setting, results))
        elif name == "fig10":
            output.append(_fig10(setting, results, tokens))
        elif name == "dataflows":
            output.append(_dataflows(results))
        elif "attention" in results:
            output.append({"fig7": _fig7, "fig9": _fig9, "offsets": _offsets}[name](setting, results))
    return output


def _relative(scored: Sequence[Score], reference: Score, name: str, bits: Sequence[int]) -> Series:
    """The perplexity of the reference relative to each one, in percent: the paper's accuracy."""
    back = [reference.over(score) for score in scored]
    return Series(
        name,
        tuple(float(each) for each in bits),
        tuple(100 + change.percent for change in back),
        tuple(change.error for change in back),
    )


def _mantissas(setting: Setting, results: Mapping[str, Any], name: str) -> Figure:
    setting = experiments.halved(setting)
    reference = _score(setting, results, "fp16")
    if name == "fig4":
        narrow = [_score(setting, results, EVERYTHING.format(m=m)) for m in BITS]
        wide = [_score(setting, results, scheme) for scheme in WIDE]
        series: tuple[Series, ...] = (
            _relative(narrow, reference, "groups of 32", BITS),
            _relative(wide, reference, "groups of 128", (8, 5)),
        )
        lines = (Line(98.5, "8 bits lose around 1.5 % for most models [harmonia §II-C]"),)
        title, place = "Mantissa bits of all activations", "[harmonia Fig. 4]"
        says = " The paper's text: accuracy falls sharply below 8 bits; larger groups amplify the loss."
    else:
        caches = [_score(setting, results, f"harmonia-kv8:high={m},low={m},weights=fp16") for m in BITS[1:]]
        eight = _score(setting, results, EVERYTHING.format(m=8))
        series = (_relative([eight, *caches], reference, "groups of 32", BITS),)
        lines = (Line(90, "below that at 4 bits for most models [harmonia §II-C]"),)
        title, place = "Mantissa bits of keys and values", "[harmonia Fig. 5]"
        says = " The paper's text: accuracy drops sharply below 5 bits, in some cases to nearly 70 % at 4."
    panel = Panel(
        "FP16 weights; 100 % is scheme fp16",
        "mantissa bits",
        "relative accuracy, %\n(perplexity of fp16 / perplexity)",
        series,
        "lines",
        lines=lines,
    )
    return Figure(name, place, title, (panel,), scores.about(setting) + says)


def _fig7(setting: Setting, results: Mapping[str, Any]) -> Figure:
    layers = results["attention"]
    places = tuple(float(place) for place in range(len(layers)))
    first = Series("first 32 tokens", places, tuple(100 * evaluation.mean_of(layer["initial"]) for layer in layers))
    local = Series("latest 64 tokens", places, tuple(100 * evaluation.mean_of(layer["local"]) for layer in layers))
    both = Series(
        "both",
        places,
        tuple(a + b for a, b in zip(first.y, local.y, strict=True)),
    )
    heads = Series(
        "query head",
        tuple(100 * share for layer in layers for share in layer["initial"]),
        tuple(100 * share for layer in layers for share in layer["local"]),
    )
    return Figure(
        "fig7",
        "[harmonia Fig. 7]",
        "Attention on the first and the latest tokens",
        (
            Panel("By layer, mean over heads", "layer", "% of the attention", (both, first, local), "lines"),
            Panel("By head", "% on the first 32 tokens", "% on the latest 64", (heads,), "points"),
        ),
        f"{setting.label}, queries of the last quarter of a prompt of 512 tokens. The paper shows maps "
        "of two heads of Llama-3.1-8B over sentences of 20 tokens.",
    )


def _fig8(setting: Setting, results: Mapping[str, Any]) -> Figure:
    reference = _score(setting, results, "harmonia-kv8")
    names = ("naive", "first 32 and latest 64 tokens at 8 bits", "and both smoothings")
    scored = [_score(setting, results, name) for name in ("harmonia-kv4-naive", NONE, "harmonia-kv4")]
    changes = [item.over(reference) for item in scored]
    measured = scores.series("measured", names, changes)
    tables_ = [
        Series(model, names[2:], (100 * (four / eight - 1),), source="[harmonia Table I]")
        for model, (eight, four) in STATED.items()
    ]
    gain = scored[1].over(scored[0])
    return Figure(
        "fig8",
        "[harmonia Fig. 8, Table I]",
        "Keys and values at 4 bits",
        (Panel("", "perplexity over that at 8 bits, %", "", (measured, *tables_)),),
        f"{scores.about(setting)} Bit allocation changes the perplexity of naive 4 bits by {gain.percent:.1f} %; the "
        "paper's text states a gain of 9.54 % in accuracy, three models [harmonia §III-B]. INT4 weights.",
    )


def _fig9(setting: Setting, results: Mapping[str, Any]) -> Figure:
    place = len(results["attention"]) // 2
    layer = results["attention"][place]
    panels = []
    for name, title in (("k", "Keys"), ("v", "Values")):
        channels = tuple(float(channel) for channel in range(len(layer[name])))
        series = (Series("channel", channels, tuple(layer[name])),)
        top = 1.05 * max(layer["k"])
        panels.append(
            Panel(f"{title}, layer {place}", "channel", "largest magnitude", series, "steps", y_range=(0, top))
        )
    return Figure(
        "fig9",
        "[harmonia Fig. 9]",
        "Channels of keys and values",
        tuple(panels),
        f"{setting.label}, largest magnitude over 512 tokens after the rotation, all KV heads. The "
        "paper's text: K has outlier channels, V has none.",
    )


def _fig10(setting: Setting, results: Mapping[str, Any], tokens: int | None) -> Figure:
    reference = _score(setting, results, NONE)
    scored = [_score(setting, results, name, tokens) for name in SMOOTHED]
    changes = [item.over(reference) for item in scored]
    bars = scores.series(
        "measured", ["both" if name == "both" else f"{name} smoothing" for name in SMOOTHED.values()], changes
    )
    panels = [Panel("Perplexity", "change over no smoothing, %", "", (bars,))]
    layers = results.get("attention")
    if layers and layers[len(layers) // 2]["both"]:
        layer = layers[len(layers) // 2]
        channels = tuple(float(channel) for channel in range(len(layer["k"])))
        kinds = {"none": "k", "offline": "offline", "both": "both"}
        curves = tuple(Series(name, channels, tuple(sorted(layer[key], reverse=True))) for name, key in kinds.items())
        axis = "channels of K, widest first"
        panels.append(Panel(f"Layer {len(layers) // 2}", axis, "largest magnitude", curves, "steps"))
    about = (
        scores.about(setting) + " Keys and values at 4 bits except for the first and the latest tokens, INT4 weights."
    )
    return Figure("fig10", "[harmonia Fig. 10]", "Smoothing of the keys", tuple(panels), about)


def _offsets(setting: Setting, results: Mapping[str, Any]) -> Figure:
    left = sorted(share for layer in results["attention"] for share in _left(layer))
    step = 0.05
    counts: dict[int, int] = {}
    for share in left:
        counts[int(share / step)] = counts.get(int(share / step), 0) + 1
    places = range(min(counts), max(counts) + 2)
    series = Series(
        "channels", tuple(step * place for place in places), tuple(float(counts.get(place, 0)) for place in places)
    )
    panel = Panel(
        f"{len(left)} chosen channels of K",
        "range after the offset / range before",
        "channels",
        (series,),
        "steps",
    )
    middle = left[len(left) // 2]
    return Figure(
        "offsets",
        "[harmonia §III-C, Fig. 10]",
        "Ranges that K offsets leave",
        (panel,),
        f"{setting.label}, 512 tokens, offsets from the first 32. Median {middle:.2f}. A one-sided "
        "channel keeps half of its range at best: the offset is half of its largest magnitude.",
    )


def _dataflows(results: Mapping[str, Any]) -> Figure:
    flows = _flows(results)
    places = tuple(float(row[0]) for row in flows)
    series = (
        Series("dataflow 1, column-major, counted", places, tuple(float(row[1]) for row in flows)),
        Series("dataflow 2, row-major, counted", places, tuple(float(row[2]) for row in flows)),
        Series("K/k (M N) + N K", places, tuple(row[3] for row in flows), source="[harmonia §IV-D]", form="points"),
        Series("M/m (N K) + M N", places, tuple(row[4] for row in flows), source="[harmonia §IV-D]", form="points"),
    )
    panel = Panel(
        f"N = K = {INNER}, m = k = {TILE}",
        "rows of A, M (log)",
        "elements fetched (log)",
        series,
        "lines",
        log_x=True,
        log_y=True,
    )
    return Figure(
        "dataflows",
        "[harmonia §IV-D]",
        "External memory access of the dataflows",
        (panel,),
        "Counts of the controller, without a model. Partial tiles are fetched whole (D-harmonia-30): below m rows, "
        "dataflow 2 fetches as much as for a full tile; the formula counts a fraction.",
    )
