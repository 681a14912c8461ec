"""`refemu study`: a paper's own experiments on a model."""

import argparse
import dataclasses
from typing import Any

from refemu.cli.output import print_json, print_table, progress


def run(arguments: argparse.Namespace) -> int:
    """Print one study of a model; returns 0."""
    from refemu import models

    make, show = _STUDIES[arguments.name]
    results = make(models.load(arguments.model), arguments)
    if arguments.json:
        print_json(results)
    else:
        show(results)
    return 0


def _words(arguments: argparse.Namespace) -> str:
    """The text of a study."""
    from refemu.models import text

    return text.read(arguments.text) if arguments.text else text.default()


def _ids(model: Any, arguments: argparse.Namespace) -> list[int]:
    """The tokens that a study of perplexity is about."""
    tokens: list[int] = model.tokenizer.encode(_words(arguments))[: arguments.tokens]
    return tokens


def _about(model: Any, arguments: argparse.Namespace, tokens: int) -> dict[str, Any]:
    """What every study of a text says of itself."""
    return {"study": arguments.name, "model": model.name, "tokens": tokens, "win": arguments.win}


def _show_olive(results: dict[str, Any]) -> None:
    print_table(
        f"pairs of {results['model']}, percent", list(_PAIRS), _rows(results["pairs"], _PAIRS), list(_PAIRS)[1:]
    )
    title = "mean error of the largest weights by outlier format, in sigma"
    print_table(title, list(_ERRORS), _rows(results["rounding_errors"], _ERRORS), ["error"])
    if results["losses"]:
        title = f"what a run of {results['tokens']} tokens loses"
        print_table(title, list(_LOSSES), _rows(results["losses"], _LOSSES), ["value"])


def olive(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything of [olive Fig. 2, Tbl. 2, Fig. 5], and with tokens also the inputs and [olive Fig. 3]."""
    from refemu.models.schemes.olive import outlier_study
    from refemu.models.schemes.scheme import silent

    read = outlier_study.texts(model, _words(arguments), arguments.tokens, arguments.win)
    with progress() as bar:
        watch = bar or silent
        weights = outlier_study.weights(model, watch)
        pairs = outlier_study.summaries(weights, "all weights")
        if read:
            pairs += outlier_study.summaries(outlier_study.inputs(model, read, watch), "all inputs")
        losses = list(outlier_study.losses(model, read, arguments.win, watch)) if read else []
    return {
        **_about(model, arguments, len([token for part in read for token in part])),
        "pairs": [dataclasses.asdict(row) for row in pairs],
        "rounding_errors": outlier_study.rounding_errors(weights),
        "losses": losses,
    }


def accuracy(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """A probe on the embeddings of rated sentences under every scheme of `accuracy.SCHEMES` [olive Tbl. 6-9]."""
    from refemu.models.backend import Jit
    from refemu.models.fetch import store
    from refemu.models.measure import accuracy
    from refemu.models.schemes.scheme import silent

    path = arguments.data or store.require("film-reviews")
    rated = accuracy.read(path)
    with progress() as bar:
        watch = bar or silent
        rows = accuracy.study(model, rated, arguments.sentences, Jit(), watch)
    return {
        "study": "accuracy",
        "model": model.name,
        "data": str(arguments.data or "film-reviews"),
        "test": arguments.sentences,
        "training": accuracy.TRAINING * arguments.sentences,
        "ridge": accuracy.RIDGE,
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def _show_accuracy(results: dict[str, Any]) -> None:
    title = f"a probe on embeddings of {results['model']}: {results['test']} sentences of {results['data']}"
    print_table(title, list(_ACCURACY), _rows(results["rows"], _ACCURACY), list(_ACCURACY)[2:])
    print(_MEANING.format(**results))


def kllm(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Perplexity rung by rung: the ladder of [kllm Table II] and the shares of outliers of [kllm Table IV]."""
    from refemu.models.schemes.kllm import study as kllm_study
    from refemu.models.schemes.scheme import silent

    ids = _ids(model, arguments)
    with progress() as bar:
        options: dict[str, Any] = {"calibration_tokens": arguments.calibration_tokens, "progress": bar or silent}
        rows = list(kllm_study.study(model, ids, arguments.win, arguments.schemes, **options))
    return {
        **_about(model, arguments, len(ids)),
        "rungs": [dataclasses.asdict(row) for row in rows],
    }


def _show_kllm(results: dict[str, Any]) -> None:
    title = f"perplexity of {results['model']} on {results['tokens']} tokens, windows of {results['win']}"
    print_table(title, list(_RUNGS), _rows(results["rungs"], _RUNGS), ["perplexity"])


def leankv(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Memory share and perplexity through the cache [leankv Table 1, Fig. 7, Fig. 8], sparsity [leankv Fig. 2, 3]."""
    from refemu.models.backend import Jit
    from refemu.models.schemes.leankv import sparsity
    from refemu.models.schemes.leankv import study as leankv_study
    from refemu.models.schemes.scheme import silent

    ids = _ids(model, arguments)
    with progress() as bar:
        show = bar or silent
        rows = list(leankv_study.study(model, ids, arguments.win, arguments.prefill, arguments.schemes, Jit(), show))
        layers = sparsity.sparsity(model, ids, arguments.win, arguments.prefill, Jit(), show)
    return {
        **_about(model, arguments, len(ids)),
        "prefill": arguments.prefill,
        "rows": [dataclasses.asdict(row) for row in rows],
        "sparsity": [dataclasses.asdict(row) for row in layers],
    }


def _show_leankv(results: dict[str, Any]) -> None:
    title = (
        f"KV cache of {results['model']} on {results['tokens']} tokens, windows of {results['win']} with a prompt of "
        f"{results['prefill']}: percent of fp16, perplexity, its change over the first row; standard errors by window"
    )
    print_table(title, list(_PAGED), _rows(results["rows"], _PAGED), list(_PAGED)[1:])
    title = "percent of the tokens a query sees that carry 95 % of its attention: the last 64 queries of the prompts"
    print_table(title, list(_SPARSE), _rows(results["sparsity"], _SPARSE), list(_SPARSE)[1:])


def harmonia(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Perplexity by mantissa bits, by bits of the cache, by smoothing: [harmonia Fig. 4, 5, 8, 10; Tables I, II]."""
    from refemu.models.schemes.harmonia import study as harmonia_study
    from refemu.models.schemes.scheme import silent

    ids = _ids(model, arguments)
    with progress() as bar:
        options: dict[str, Any] = {"calibration_tokens": arguments.calibration_tokens, "progress": bar or silent}
        rows = list(harmonia_study.study(model, ids, arguments.win, arguments.schemes, arguments.prefill, **options))
    return {
        **_about(model, arguments, len(ids)),
        "prefill": arguments.prefill,
        "points": [dataclasses.asdict(row) for row in rows],
    }


def _show_harmonia(results: dict[str, Any]) -> None:
    title = f"perplexity of {results['model']} on {results['tokens']} tokens, windows of {results['win']}"
    print_table(title, list(_POINTS), _rows(results["points"], _POINTS), ["perplexity", "error", "of windows"])
    changes = [{**change, "of": row["scheme"]} for row in results["points"] for change in row["changes"]]
    if changes:
        title = "change of the perplexity in percent, window by window: mean with its standard error"
        print_table(title, list(_CHANGES), _rows(changes, _CHANGES), list(_CHANGES)[2:])


def mix(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Perplexity and bits of the KV cache of mixes, by windows."""
    from refemu.models.schemes.mix import study as mix_study
    from refemu.models.schemes.scheme import silent

    ids = _ids(model, arguments)
    with progress() as bar:
        options: dict[str, Any] = {"names": arguments.schemes, "progress": bar or silent}
        rows = list(mix_study.study(model, ids, arguments.win, arguments.prefill, **options))
    return {
        **_about(model, arguments, len(ids)),
        "prefill": arguments.prefill,
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def _show_mix(results: dict[str, Any]) -> None:
    title = (
        f"perplexity of {results['model']} on {results['tokens']} tokens, windows of {results['win']} with a prompt of "
        f"{results['prefill']}; its change over the first row by window; bits of a value in the KV cache"
    )
    print_table(title, list(_MIXED), _rows(results["rows"], _MIXED), list(_MIXED)[1:])


def _rows(results: list[dict[str, Any]], columns: dict[str, tuple[str, Any]]) -> list[list[str]]:
    return [[show(row[field]) for field, show in columns.values()] for row in results]


def _percent(share: float) -> str:
    return f"{100 * share:.4f}"


def _with_error(change: dict[str, Any]) -> str:
    error = "" if change["error"] is None else f" ± {change['error']:.2f}"
    return f"{change['percent']:+.2f}{error}"


_STUDIES = {
    "olive": (olive, _show_olive),
    "accuracy": (accuracy, _show_accuracy),
    "kllm": (kllm, _show_kllm),
    "harmonia": (harmonia, _show_harmonia),
    "leankv": (leankv, _show_leankv),
    "mix": (mix, _show_mix),
}

_MEANING = """\
probe      percent of the sentences that it calls good or bad as people do. It is a ridge regression (penalty {ridge})
           on the fp32 embeddings of {training} other sentences, applied unchanged to the embeddings of every scheme
as fp32    percent of the sentences of which it says what it says of their fp32 embeddings
error      mean over the sentences of |embedding - fp32 embedding| / |fp32 embedding|, L2 norms
fp32       plain float32 NumPy; all other rows are refemu's exact arithmetic. Rows without outliers saturate"""

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
_RUNGS = {
    "scheme": ("scheme", str),
    "activations": ("quantizer", str),
    "bits": ("bits", str),
    "outliers, percent": ("outliers", str),
    "perplexity": ("perplexity", "{:.2f}".format),
}
_PAGED = {
    "scheme": ("scheme", str),
    "tokens kept": ("kept", lambda share: f"{100 * share:.1f}"),
    "low": ("low", lambda share: f"{100 * share:.1f}"),
    "codes": ("payload", lambda share: f"{100 * share:.2f}"),
    "error": ("payload_error", lambda error: "" if error is None else f"{100 * error:.2f}"),
    "with metadata": ("tokens", lambda share: f"{100 * share:.2f}"),
    "pages": ("pages", lambda share: f"{100 * share:.2f}"),
    "read": ("read", lambda share: f"{100 * share:.2f}"),
    "perplexity": ("perplexity", "{:.3f}".format),
    "change, percent": ("change", lambda change: "" if change is None else _with_error(change)),
}
_MIXED = {
    "scheme": ("scheme", str),
    "perplexity": ("perplexity", "{:.2f}".format),
    "error": ("error", lambda error: "" if error is None else f"{error:.2f}"),
    "change, percent": ("change", lambda change: "" if change is None else _with_error(change)),
    "KV bits": ("kv_bits", "{:.2f}".format),
}
_SPARSE = {
    "layer": ("layer", str),
    "percent": ("mean", lambda share: f"{100 * share:.1f}"),
    "least of the prompts": ("least", lambda share: f"{100 * share:.1f}"),
    "most": ("most", lambda share: f"{100 * share:.1f}"),
}
_POINTS = {
    "": ("meaning", str),
    "scheme": ("scheme", str),
    "perplexity": ("perplexity", "{:.2f}".format),
    "error": ("error", lambda error: "" if error is None else f"{error:.2f}"),
    "of windows": ("windows", lambda every: f"{min(every):.2f} to {max(every):.2f}"),
}
_CHANGES = {
    "scheme": ("of", str),
    "over": ("scheme", str),
    "change": ("percent", "{:+.2f}".format),
    "error": ("error", lambda error: "" if error is None else f"{error:.2f}"),
    "least": ("least", "{:+.2f}".format),
    "most": ("most", "{:+.2f}".format),
}
_ACCURACY = {
    "": ("name", str),
    "scheme": ("scheme", str),
    "probe": ("accuracy", lambda share: f"{100 * share:.1f}"),
    "as fp32": ("agreement", lambda share: f"{100 * share:.1f}"),
    "error": ("error", "{:.4f}".format),
}
