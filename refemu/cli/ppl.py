"""`refemu ppl`: the perplexity of a text under a scheme."""

import argparse
import sys
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli import source
from refemu.cli.output import print_json, print_table
from refemu.cli.progress import progress


def run(arguments: argparse.Namespace) -> int:
    """Print the perplexity with its standard error over windows; return 0."""
    from refemu import models
    from refemu.models import engine
    from refemu.models.scores import score

    model = score.decoder(arguments.model)
    ids = source.ids(model, arguments)[: arguments.tokens]
    if not ids:
        raise Refused(f"{source.named(arguments)}: the text must have at least one token, got none")
    if arguments.windows:
        ids = ids[: arguments.windows * arguments.win]
    calibration = source.calibration_ids(model, arguments)
    listed = [arguments.scheme, *([arguments.over] if arguments.over else [])]
    configs = [models.schemes.parse(each) for each in listed]
    prompt = max(score.default_prefill(each, arguments.win) for each in configs)
    with progress() as report:
        scored, *others = (
            models.perplexity(
                model,
                ids=ids,
                scheme=each,
                backend=engine.backend_of(each, model, len(ids)),
                win=arguments.win,
                prefill=prompt if arguments.prefill is None else arguments.prefill,
                calibration=calibration,
                progress=report,
            )
            for each in configs
        )
    compared = [(other, models.compare(scored, other)) for other in others]
    origins = source.origins(arguments, ids, calibration)
    if arguments.json:
        print_json("ppl", _row(model, arguments.scheme, scored, compared) | origins)
        return 0
    _show(model, arguments, scored)
    _show_changes(compared)
    print("\n".join(source.origin_lines(origins)))
    for note in dict.fromkeys(note for each in (scored, *others) for note in each.notes):
        print(f"refemu: note: {note}", file=sys.stderr)
    return 0


def _row(model: Any, scheme: str, scored: Any, compared: list[Any]) -> dict[str, Any]:
    from refemu.studies.evaluation import seeded

    return {
        "model": model.name,
        "seeded": seeded(model),
        "scheme": scheme,
        "tokens": scored.tokens,
        "scored": scored.scored,
        "win": scored.win,
        "prefill": scored.prefill,
        "windows": list(scored.windows),
        "perplexity": scored.perplexity,
        "error": scored.error,
        "equals_fp16": scored.equals_fp16,
        "notes": list(scored.notes),
        "change": next((_change(other, change) for other, change in compared), None),
    }


def _change(other: Any, change: Any) -> dict[str, Any]:
    """The change over another scheme, as JSON."""
    fields = {name: getattr(change, name) for name in ("percent", "error", "least", "most", "significant")}
    return {"over": other.scheme, "perplexity": other.perplexity, **fields}


def _show_changes(compared: list[Any]) -> None:
    """Print the change over another scheme."""
    columns = ["over", "perplexity", "change, %", "±, %", "least, %", "most, %", "significant"]
    for other, change in compared:
        error = "" if change.error is None else f"{change.error:.2f}"
        shown = {True: "yes", False: "no", None: ""}[change.significant]
        numbers = [f"{change.percent:+.2f}", error, f"{change.least:+.2f}", f"{change.most:+.2f}"]
        cells = [other.scheme, f"{other.perplexity:.4f}", *numbers, shown]
        print_table(f"change over {other.scheme}, window by window", columns, [cells], columns[1:-1])


def _show(model: Any, arguments: argparse.Namespace, scored: Any) -> None:
    from refemu.studies.evaluation import label

    columns = ["model", "scheme", "tokens", "scored", "win", "prefill", "windows", "perplexity", "±"]
    error = "" if scored.error is None else f"{scored.error:.4f}"
    cells = [
        label(model),
        arguments.scheme,
        scored.tokens,
        scored.scored,
        scored.win,
        scored.prefill,
        len(scored.losses),
    ]
    print_table(
        "perplexity, ± standard error over the windows",
        columns,
        [[*cells, f"{scored.perplexity:.4f}", error]],
        columns[2:],
    )
    if scored.prefill and arguments.prefill is None:
        print(
            f"refemu: note: {arguments.scheme} changes only tokens after a prompt, so the first {scored.prefill} "
            "tokens of each window are its prompt; --prefill N chooses another number, and --over fp16 compares with "
            "the same",
            file=sys.stderr,
        )
