"""`refemu study`: a paper's own experiments on a model."""

import argparse
import dataclasses
from typing import Any

from refemu.cli.output import print_json, print_table, progress


def run(arguments: argparse.Namespace) -> int:
    """Print OliVe's statistics and experiments for a model; returns 0."""
    from refemu import models

    found = olive(models.load(arguments.model), arguments)
    if arguments.json:
        print_json(found)
        return 0
    print_table(f"pairs of {found['model']}, percent", list(_PAIRS), _rows(found["pairs"], _PAIRS), list(_PAIRS)[1:])
    print_table(
        "mean error of the largest weights by outlier format, in sigma",
        list(_ERRORS),
        _rows(found["rounding_errors"], _ERRORS),
        ["error"],
    )
    if found["losses"]:
        print_table(
            f"what a run of {found['tokens']} tokens loses", list(_LOSSES), _rows(found["losses"], _LOSSES), ["value"]
        )
    return 0


def olive(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything of [olive Fig. 2, Tbl. 2, Fig. 5], and with tokens also the inputs and [olive Fig. 3]."""
    from refemu.models import study, text

    words = text.read(arguments.text) if arguments.text else text.default()
    read = study.texts(model, words, arguments.tokens, arguments.win)
    with progress() as bar:
        watch = bar or (lambda what, done, total: None)
        weights = study.weights(model, watch)
        pairs = study.summaries(weights, "all weights")
        if read:
            pairs += study.summaries(study.inputs(model, read, watch), "all inputs")
        losses = list(study.losses(model, read, arguments.win, watch)) if read else []
    return {
        "study": "olive",
        "model": model.name,
        "tokens": len([one for part in read for one in part]),
        "win": arguments.win,
        "pairs": [dataclasses.asdict(row) for row in pairs],
        "rounding_errors": study.rounding_errors(weights),
        "losses": losses,
    }


def _rows(found: list[dict[str, Any]], columns: dict[str, tuple[str, Any]]) -> list[list[str]]:
    return [[show(row[field]) for field, show in columns.values()] for row in found]


def _percent(share: float) -> str:
    return f"{100 * share:.4f}"


#: heading -> field, and how it is written
_PAIRS = {
    "tensors": ("kind", str),
    "n": ("tensors", str),
    "> 3 sigma": ("beyond_three", _percent),
    "> 6 sigma": ("beyond_six", _percent),
    "N-N": ("normal_normal", _percent),
    "O-N": ("outlier_normal", _percent),
    "O-O": ("outlier_outlier", _percent),
    "O-O if independent": ("independent", _percent),
    "max sigma, median": ("max_sigma_median", "{:.1f}".format),
    "largest": ("max_sigma_largest", "{:.1f}".format),
}
_ERRORS = {
    "normal": ("normal", str),
    "outlier": ("outlier", str),
    "error": ("error", "{:.3f}".format),
    "least": ("least", lambda least: "least" if least else ""),
}
_LOSSES = {"scheme": ("scheme", str), "measure": ("measure", str), "value": ("value", "{:.4f}".format)}
