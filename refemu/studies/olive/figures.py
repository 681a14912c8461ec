"""Tables and figures of `refemu study olive`, with the paper's values.

Paper: [olive §2.1 Fig. 2; §2.3 Tbl. 2, Fig. 3; §3.3 Fig. 5; §5.2 Tbl. 9].
"""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu.models.scores.uncertainty import spread
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.olive import experiments, outliers
from refemu.studies.olive.experiments import LADDER, LOST
from refemu.studies.output import scores
from refemu.studies.output.figure import Figure, Line, Panel, Series
from refemu.studies.output.table import Column, Table, rows

FIGURES = {"fig2": "weights", "table2": "weights", "fig3": "losses", "fig5": "weights", "table9": "ladder"}
#: pairs of three kinds in percent [olive Tbl. 2]
PAIRS = {
    "BERT-base": (99.12, 0.84, 0.04),
    "BERT-large": (99.24, 0.71, 0.05),
    "GPT2-XL": (98.80, 1.14, 0.06),
    "OPT-6.7B": (99.33, 0.64, 0.03),
}
NAMES = {
    "fp16": "fp16",
    "olive-8": "8 bits, OliVe",
    "olive-8:outliers=false": "int8, no outliers",
    "olive-4": "4 bits, OliVe",
    "olive-4:outliers=false": "int4 or flint4, no outliers (ANT)",
    "olive-4:outliers=false,types=int": "int4, no outliers",
}  #: rows of [olive Tbl. 9]
#: perplexities on WikiText [olive Tbl. 9]: FP32, then the rows in the order of NAMES
STATED = {
    "GPT2-XL": (17.48, 17.49, 18.29, 19.11, 27.79, 1e4),
    "BLOOM-7B1": (13.05, 13.13, 14.04, 15.16, 23.22, 3e6),
    "OPT-6.7B": (22.14, 22.34, 37.45, 55.44, 4e4, 5e2),
}
LOSSES = {
    "fp16": "nothing lost (fp16)",
    "clip": "outliers clipped to 3 sigma",
    "prune_victims": "victims pruned",
    "prune_normals": "as many normal values pruned",
}

_PAIRS = (
    Column("kind", "text", "tensors", "kind of tensor"),
    Column("tensors", "integer", "n", "tensors of that kind"),
    Column("beyond_three", "number", "> 3 sigma", "elements beyond 3 sigma of their tensor", "%", 4),
    Column("beyond_six", "number", "> 6 sigma", "elements beyond 6 sigma", "%", 4),
    Column("normal_normal", "number", "N-N", "pairs of two normal values", "%", 4),
    Column("outlier_normal", "number", "O-N", "pairs of an outlier and a normal value", "%", 4),
    Column("outlier_normal_error", "number", "±", "its standard error over the tensors", "%", 4),
    Column("outlier_outlier", "number", "O-O", "pairs of two outliers", "%", 4),
    Column("outlier_outlier_error", "number", "±", "its standard error over the tensors", "%", 4),
    Column("independent", "number", "O-O if independent", "outlier-outlier pairs if outliers were independent", "%", 4),
    Column("max_sigma_median", "number", "max, median", "median of the tensors' largest magnitudes", "sigma", 1),
    Column("max_sigma_largest", "number", "max, largest", "largest of them", "sigma", 1),
)
_ERRORS = (
    Column("normal", "text", "normal", "type of the normal values"),
    Column("outlier", "text", "outlier", "format of the outliers"),
    Column("error", "number", "error", "mean error of the tensors' largest magnitudes", "sigma", 3),
    Column("spread", "number", "±", "its standard error over the tensors", "sigma", 3),
    Column("least", "text", "", "`least` for the smallest error with this normal type"),
)
_DISTANCES = (
    Column("meaning", "text", "", "the values lost"),
    Column("scheme", "text", "scheme", "as `--scheme` takes it"),
    Column("distance", "number", "1 - cosine", "to the embedding under fp16, mean over the texts", "", 4),
    Column("error", "number", "±", "its standard error over the texts", "", 4),
    Column("texts", "integer", "texts", "paragraphs"),
)


def tables(setting: Setting, results: Mapping[str, Any], parts: Sequence[str]) -> list[Table]:
    """The tables of some parts."""
    output = []
    if "weights" in parts or "inputs" in parts:
        output.append(_pairs(setting, results, parts))
    if "weights" in parts:
        output.append(_errors(results))
    if "losses" in parts:
        output.append(_losses(setting, results))
    if "ladder" in parts and not setting.is_encoder:
        title = f"perplexity by scheme [olive Tbl. 9]: {scores.about(setting)}"
        scored = [evaluation.score(setting, results, name) for name in LADDER]
        output.append(scores.table("ladder", title, [(NAMES[item.scheme], item, scored[0]) for item in scored]))
    return output


def _pairs(setting: Setting, results: Mapping[str, Any], parts: Sequence[str]) -> Table:
    listed: list[dict[str, Any]] = []
    for part in ("weights", "inputs"):
        if part in parts:
            tensors = experiments.measured(results[part])
            listed += [_summary(*group) for group in outliers.by_kind(tensors, f"all {part}").items()]
    title = f"outliers and pairs of {setting.label}, means over the tensors [olive Fig. 2, Tbl. 2]"
    return Table("pairs", title, _PAIRS, rows(listed, _PAIRS))


def _summary(name: str, tensors: Sequence[outliers.Measured]) -> dict[str, Any]:
    total = outliers.summary(name, tensors)
    some, both = (spread([100 * tensor.pairs.shares[place] for tensor in tensors]).error for place in (1, 2))
    shares = ("beyond_three", "beyond_six", "normal_normal", "outlier_normal", "outlier_outlier", "independent")
    return {
        "kind": name,
        "tensors": total.tensors,
        **{field: 100 * getattr(total, field) for field in shares},
        "outlier_normal_error": some,
        "outlier_outlier_error": both,
        "max_sigma_median": total.max_sigma_median,
        "max_sigma_largest": total.max_sigma_largest,
    }


def _errors(results: Mapping[str, Any]) -> Table:
    title = "error of the largest weight of each tensor, by format of the outliers [olive Fig. 5]"
    return Table(
        "rounding_errors",
        title,
        _ERRORS,
        rows(outliers.rounding_errors(experiments.measured(results["weights"])), _ERRORS),
    )


def _meaning(scheme: str) -> str:
    return LOSSES[scheme.rpartition("=")[2]]


def _losses(setting: Setting, results: Mapping[str, Any]) -> Table:
    title = "losing outliers, their victims, or as many normal values [olive Fig. 3]: "
    if not setting.is_encoder:
        scored = [evaluation.score(setting, results, name) for name in LOST]
        title += scores.about(setting)
        return scores.table("losses", title, [(_meaning(item.scheme), item, scored[0]) for item in scored])
    listed = []
    for name in LOST:
        each = spread(results[f"{name}, embeddings"])
        listed.append((_meaning(name), name, each.mean, each.error, each.count))
    return Table("losses", title + setting.label, _DISTANCES, tuple(listed))


def figures(setting: Setting, results: Mapping[str, Any], names: Sequence[str]) -> list[Figure]:
    """Some of FIGURES."""
    makers = {"fig2": _fig2, "table2": _table2, "fig3": _fig3, "fig5": _fig5, "table9": _table9}
    return [makers[name](setting, results) for name in names if not (name == "table9" and setting.is_encoder)]


def _fig2(setting: Setting, results: Mapping[str, Any]) -> Figure:
    tensors = sorted(experiments.measured(results["weights"]), key=lambda tensor: -tensor.tensor.max_sigma)
    places = tuple(float(place) for place in range(1, len(tensors) + 1))
    largest = Series("largest magnitude", places, tuple(tensor.tensor.max_sigma for tensor in tensors))
    three, six = (
        Series(f"beyond {name} sigma", places, tuple(100 * getattr(tensor.tensor, field) for tensor in tensors))
        for name, field in (("3", "beyond_three"), ("6", "beyond_six"))
    )
    axis = "weight tensors, by largest magnitude"
    return Figure(
        "fig2",
        "[olive Fig. 2]",
        "Outliers of weights",
        (
            Panel("Largest magnitude", axis, "sigma of the tensor", (largest,), "lines", log_y=True),
            Panel(
                "Share of outliers",
                axis,
                "% of the elements",
                (three, six),
                "points",
                lines=(Line(0.5, "most tensors are below 0.5 % beyond 3 sigma [olive §2.1]"),),
            ),
        ),
        f"{len(tensors)} linear layers of {setting.label}. The paper shows BERT-base and ResNet-18.",
    )


def _table2(setting: Setting, results: Mapping[str, Any]) -> Figure:
    tensors = experiments.measured(results["weights"])
    groups = outliers.by_kind(tensors, "all weights")
    scored = [_summary(*group) for group in groups.items()]
    panels = []
    for place, field, title in ((1, "outlier_normal", "Outlier-normal"), (2, "outlier_outlier", "Outlier-outlier")):
        measured = Series(
            "measured",
            tuple(groups),
            tuple(row[field] for row in scored),
            tuple(row[f"{field}_error"] for row in scored),
        )
        stated = Series("stated", tuple(PAIRS), tuple(pair[place] for pair in PAIRS.values()), source="[olive Tbl. 2]")
        panels.append(Panel(title, "% of the pairs", "", (measured, stated)))
    return Figure(
        "table2",
        "[olive Tbl. 2]",
        "Pairs with outliers",
        tuple(panels),
        f"Weights of {setting.label}: means over the tensors of a kind ± standard error; outliers are "
        "beyond 3 sigma. All other pairs are normal-normal.",
    )


def _fig3(setting: Setting, results: Mapping[str, Any]) -> Figure:
    says = (
        " The paper's text: clipping about 1 % of the values loses unacceptably much, pruning as many normal values "
        "almost nothing, pruning victims hardly more [olive §2.3]; it states no numbers."
    )
    if setting.is_encoder:
        each = [spread(results[f"{name}, embeddings"]) for name in LOST[1:]]
        series = scores.series("measured", map(_meaning, LOST[1:]), each)
        panel = Panel("Distance of the embeddings", "1 - cosine to those under fp16", "", (series,))
        about = f"{setting.label}, {each[0].count} paragraphs ± standard error."
    else:
        scored = [evaluation.score(setting, results, name) for name in LOST]
        bars = scores.ratios("measured", [_meaning(item.scheme) for item in scored[1:]], scored[1:], scored[0])
        axis = "perplexity / that of fp16 (log)"
        panel = Panel("Perplexity", axis, "", (bars,), log_x=True, base=1.0)
        about = scores.about(setting)
    return Figure("fig3", "[olive Fig. 3]", "Outliers matter, victims do not", (panel,), about + says)


def _fig5(setting: Setting, results: Mapping[str, Any]) -> Figure:
    scored = outliers.rounding_errors(experiments.measured(results["weights"]))
    panels = []
    for normal in dict.fromkeys(row["normal"] for row in scored):
        some = [row for row in scored if row["normal"] == normal]
        series = Series(
            "measured",
            tuple(row["outlier"] for row in some),
            tuple(row["error"] for row in some),
            tuple(row["spread"] for row in some),
        )
        panels.append(Panel(f"With {normal}", "mean error, sigma", "", (series,)))
    return Figure(
        "fig5",
        "[olive Fig. 5]",
        "Rounding error of the largest outliers",
        tuple(panels),
        f"Largest weight of every tensor of {setting.label} ± standard error over the tensors. The "
        "paper's text: E2M1 gives the least error in all tests [olive §3.3]; it states no numbers.",
    )


def _table9(setting: Setting, results: Mapping[str, Any]) -> Figure:
    scored = [evaluation.score(setting, results, name) for name in LADDER]
    names = [NAMES[name] for name in LADDER[1:]]
    bars = scores.ratios(setting.label, names, scored[1:], scored[0])
    stated = [
        scores.stated(model, "[olive Tbl. 9]", dict(zip(names, values[1:], strict=True)), values[0])
        for model, values in STATED.items()
    ]
    axis = "perplexity / that of FP16 (FP32 in the paper), log"
    return Figure(
        "table9",
        "[olive Tbl. 9]",
        "Perplexity by scheme",
        (Panel("", axis, "", (bars, *stated), log_x=True, base=1.0),),
        scores.about(setting) + " Paper: WikiText.",
    )
