"""Tables and figures of `refemu study kllm`, with the paper's values.

Paper: [kllm §II-A2 Fig. 2; §IV-C; §V-B Table II; §V-D Table IV, Fig. 11].
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from refemu.models import schemes
from refemu.models.scores.uncertainty import spread
from refemu.studies import evaluation
from refemu.studies.evaluation import Score, Setting
from refemu.studies.kllm import experiments
from refemu.studies.kllm.experiments import BREAKDOWN, LADDER, SHARES, distance
from refemu.studies.output import scores
from refemu.studies.output.figure import Figure, Line, Panel, Series
from refemu.studies.output.table import Column, Table

FIGURES = {
    "table2": "ladder",
    "table4": "shares",
    "fig11": "breakdown",
    "fig2": "centroids",
    "orizuru": "orizuru",
}
NAMES = {
    "fp16": "fp16",
    "kllm-a4:quantizer=rtn": "W4A4, integers to nearest (RTN)",
    "kllm-a4-s": "W4A4, K-Means, static limits (KLLM-S)",
    "kllm-a4": "W4A4, K-Means, ranks (KLLM)",
    "kllm-a3-s": "W4A3, K-Means, static limits (KLLM-S)",
    "kllm-a3": "W4A3, K-Means, ranks (KLLM)",
}  #: rows of [kllm Table II]
#: WikiText-2 perplexities [kllm Table II] in the order of NAMES
STATED = {"LLaMA-2-7B": (5.47, 2e3, 6.00, 5.90, 7.91, 7.49), "Mistral-7B": (5.25, 6e3, 5.84, 5.75, 7.42, 7.27)}
SHARED = (6.11, 5.90, 5.87, 5.66, 5.58)  #: W4A4 KLLM, LLaMA-2-7B by the share of outliers [kllm Table IV]
STEPS = ("integers (RTN)", "K-Means", "K-Means, sample weights (KLLM-S)", "and Orizuru (KLLM)")
BROKEN = (6e5, 8.03, 7.91, 7.49)  #: W4A3, LLaMA-2-7B; the first is "> 600,000" [kllm Fig. 11, §V-D]
FP16 = 5.47  #: LLaMA-2-7B [kllm Table II]
RMSE = (0.14, 0.01, 0.29)  #: of centroids with outliers, without, of thresholds [kllm §II-A2, Fig. 2]

_CENTROIDS = (
    Column("what", "text", "distance of two texts", "root of the mean square of the difference"),
    Column("rmse", "number", "RMSE", "mean over the pairs of windows", "", 4),
    Column("error", "number", "±", "its standard error", "", 4),
    Column("least", "number", "least pair", "smallest of the pairs", "", 4),
    Column("most", "number", "largest", "largest of the pairs", "", 4),
    Column("pairs", "integer", "pairs", "pairs of windows of 128 tokens"),
    Column("stated", "number", "paper", "LLaMA-2-7B [kllm §II-A2]", "", 2),
)
_ORIZURU = (
    Column("inputs", "integer", "inputs", "N"),
    Column("k", "integer", "k", "popped on either side"),
    Column("comparisons", "integer", "comparisons", "counted in the unit"),
    Column("stated", "integer", "1.5 N + 2 k log2 N", "[kllm §IV-C]"),
    Column("apart", "integer", "two trees apart", "2 (N - 1) + 2 k log2 N, without the shared level"),
)


def shown(name: str) -> str:
    """A scheme in the paper's words, or its text."""
    return NAMES.get(name, name)


def tables(
    setting: Setting,
    results: Mapping[str, Any],
    parts: Sequence[str],
    listed: Sequence[str] = (),
    tokens: int | None = None,
) -> list[Table]:
    """The tables of some parts. listed: schemes instead of the ladders."""
    output = []
    about = scores.about(setting)
    if listed:
        output.append(_scores("schemes", f"perplexity of schemes: {about}", setting, results, listed, tokens))
    else:
        titles = {
            "ladder": f"the ladder of quantizers [kllm Table II]: {about}",
            "shares": f"perplexity by the share of outliers, W4A4 [kllm Table IV]: {about}",
            "breakdown": f"gain of each step at W4A3 [kllm Fig. 11]: {about}",
        }
        output += [
            _scores(part, title, setting, results, experiments.names(part), tokens)
            for part, title in titles.items()
            if part in parts
        ]
    if "centroids" in parts and "centroids" in results:
        output.append(_centroids(setting, results))
    if "orizuru" in parts:
        title = "comparisons of Orizuru, 1 % of the inputs popped [kllm §IV-C]"
        output.append(Table("orizuru", title, _ORIZURU, tuple(map(_counted, results["orizuru"]))))
    return output


def _score(setting: Setting, results: Mapping[str, Any], name: str, tokens: int | None) -> Score:
    text = schemes.text(experiments.with_tokens(name, tokens))
    return replace(evaluation.score(setting, results, text), scheme=name)


def _scores(
    part: str, title: str, setting: Setting, results: Mapping[str, Any], names: Sequence[str], tokens: int | None
) -> Table:
    """Changes relative to fp16 if it is among the schemes, else to the first."""
    scored = [_score(setting, results, name, tokens) for name in names]
    reference = next((item for item in scored if item.scheme == "fp16"), scored[0])
    return scores.table(part, title, [(_meaning(part, item.scheme), item, reference) for item in scored])


def _meaning(part: str, name: str) -> str:
    if part == "breakdown":
        return dict(zip(BREAKDOWN, STEPS, strict=True))[name]
    if part == "shares":
        percent: Any = schemes.parse(name)
        return f"{percent.outlier_percent} % of outliers"
    return NAMES.get(name, "")


def _counted(row: Mapping[str, int]) -> tuple[int, ...]:
    size, k = row["inputs"], row["k"]
    levels = size.bit_length() - 1
    return size, k, row["comparisons"], 3 * size // 2 + 2 * k * levels, 2 * size - 2 + 2 * k * levels


def _distances(results: Mapping[str, Any]) -> dict[str, list[float]]:
    """Distances of every pair of windows, by kind."""
    pairs = results["centroids"]
    thresholds = []
    for online, offline in pairs:
        middle = evaluation.mean_of(offline["thresholds"])
        normal = [[each / middle for each in item["thresholds"]] for item in (online, offline)]
        thresholds.append(distance(*normal))
    return {
        "centroids, with outliers": [distance(a["all"], b["all"]) for a, b in pairs],
        "centroids, without 1 % of outliers": [distance(a["inliers"], b["inliers"]) for a, b in pairs],
        "thresholds of the tokens, over their mean": thresholds,
    }


def _centroids(setting: Setting, results: Mapping[str, Any]) -> Table:
    listed = []
    for (what, values), stated in zip(_distances(results).items(), RMSE, strict=True):
        each = spread(values)
        listed.append((what, each.mean, each.error, each.least, each.most, each.count, stated))
    title = f"inputs of the first q_proj of {setting.label}, on two texts [kllm Fig. 2]"
    return Table("centroids", title, _CENTROIDS, tuple(listed))


def figures(
    setting: Setting, results: Mapping[str, Any], names: Sequence[str], tokens: int | None = None
) -> list[Figure]:
    """Some of FIGURES."""
    output = []
    for name in names:
        if name == "table2":
            output.append(_table2(setting, results, tokens))
        elif name == "table4":
            output.append(_table4(setting, results, tokens))
        elif name == "fig11":
            output.append(_fig11(setting, results, tokens))
        elif name == "fig2" and "centroids" in results:
            output.append(_fig2(setting, results))
        elif name == "orizuru":
            output.append(_orizuru(results))
    return output


AXIS = "perplexity / that of FP16 (log)"


def _table2(setting: Setting, results: Mapping[str, Any], tokens: int | None) -> Figure:
    scored = [_score(setting, results, name, tokens) for name in LADDER]
    names = [NAMES[name] for name in LADDER[1:]]
    bars = scores.ratios(setting.label, names, scored[1:], scored[0])
    stated = [
        scores.stated(model, "[kllm Table II]", dict(zip(names, values[1:], strict=True)), values[0])
        for model, values in STATED.items()
    ]
    panel = Panel("", AXIS, "", (bars, *stated), log_x=True, base=1.0)
    about = scores.about(setting) + " Paper: WikiText-2, 2,048 tokens."
    return Figure("table2", "[kllm Table II, Fig. 1a]", "From integers to K-Means", (panel,), about)


def _table4(setting: Setting, results: Mapping[str, Any], tokens: int | None) -> Figure:
    scored = [_score(setting, results, experiments.share(percent), tokens) for percent in SHARES]
    places = tuple(float(percent) for percent in SHARES)
    reference = scored[0]
    bars = scores.ratios(setting.label, SHARES, scored, reference)
    measured = Series(bars.label, places, bars.y, bars.error)
    stated = Series("LLaMA-2-7B", places, tuple(each / SHARED[0] for each in SHARED), source="[kllm Table IV]")
    panel = Panel(
        "W4A4, ranks",
        "outliers in FP16, % of a token (log)",
        "perplexity / that at 0.5 %",
        (measured, stated),
        "lines",
        log_x=True,
    )
    return Figure("table4", "[kllm Table IV]", "Share of outliers", (panel,), scores.about(setting))


def _fig11(setting: Setting, results: Mapping[str, Any], tokens: int | None) -> Figure:
    scored = [_score(setting, results, name, tokens) for name in BREAKDOWN]
    bars = scores.ratios(setting.label, STEPS, scored, scored[-1])
    stated = scores.stated(
        "LLaMA-2-7B (the first is more than that)",
        "[kllm §V-D]",
        dict(zip(STEPS, BROKEN, strict=True)),
        BROKEN[-1],
    )
    panel = Panel("W4A3", "perplexity / that of KLLM (log)", "", (bars, stated), log_x=True, base=1.0)
    about = scores.about(setting) + " Sample weights: a proxy of Fisher information (D-kllm-29)."
    return Figure("fig11", "[kllm Fig. 11]", "Gain of each step", (panel,), about)


def _fig2(setting: Setting, results: Mapping[str, Any]) -> Figure:
    """The centroids of the first pair of windows, and the distances of all."""
    online, offline = results["centroids"][0]
    scored = list(_distances(results).items())
    places = tuple(float(place) for place in range(1, 17))
    panels = []
    for kind, title in (("all", "(a) with outliers"), ("inliers", "(b) without outliers")):
        pair = (
            Series("online text", places, tuple(online[kind]), form="points"),
            Series("offline text", places, tuple(offline[kind]), form="points"),
        )
        panels.append(Panel(f"{title}: first pair of windows", "centroid", "value", pair, "points"))
    names = tuple(what for what, _ in scored)
    each = [spread(values) for _, values in scored]
    measured = scores.series("measured", names, each)
    stated = Series("LLaMA-2-7B", names, RMSE, source="[kllm §II-A2]")
    panels.append(Panel("Distance of the texts", "RMSE (log)", "", (measured, stated), log_x=True, base=1e-3))
    return Figure(
        "fig2",
        "[kllm Fig. 2]",
        "Centroids and thresholds of two texts",
        tuple(panels),
        f"Inputs of the first q_proj of {setting.label}, {each[0].count} pairs of windows of "
        f"{experiments.WINDOW} tokens ± standard error. The paper does not say what its values are relative to.",
    )


def _orizuru(results: Mapping[str, Any]) -> Figure:
    counted = [_counted(row) for row in results["orizuru"]]
    places = tuple(float(row[0]) for row in counted)
    series = (
        Series("two trees apart: 2 N - 2 + 2 k log2 N", places, tuple(row[4] / row[0] for row in counted)),
        Series("counted in the unit", places, tuple(row[2] / row[0] for row in counted)),
        Series("1.5 N + 2 k log2 N", places, tuple(row[3] / row[0] for row in counted), source="[kllm §IV-C]"),
    )
    panel = Panel(
        "1 % of the inputs popped, at least one on either side",
        "inputs N (log)",
        "comparisons / N",
        series,
        "lines",
        log_x=True,
        lines=(Line(1.5, "1.5: building both trees"),),
    )
    return Figure(
        "orizuru",
        "[kllm §IV-C]",
        "Comparisons of Orizuru",
        (panel,),
        "Counts of the unit, without a model. They are 2 below the paper's formula for every N and k.",
    )
