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
    from refemu.models.scores import score

    model = score.decoder(arguments.model)
    ids = source.ids(model, arguments)[: arguments.tokens]
    if not ids:
        raise Refused(f"{source.named(arguments)}: the text must have at least one token, got none")
    if arguments.windows:
        ids = ids[: arguments.windows * arguments.win]
    calibration = source.calibration_ids(model, arguments)
    with progress() as report:
        scored = models.perplexity(
            model,
            ids=ids,
            scheme=arguments.scheme,
            win=arguments.win,
            prefill=arguments.prefill,
            calibration=calibration,
            progress=report,
        )
    origins = source.origins(arguments, ids, calibration)
    if arguments.json:
        print_json("ppl", _row(model, arguments.scheme, scored) | origins)
        return 0
    _show(model, arguments, scored)
    print("\n".join(source.origin_lines(origins)))
    for note in scored.notes:
        print(f"refemu: note: {note}", file=sys.stderr)
    return 0


def _row(model: Any, scheme: str, scored: Any) -> dict[str, Any]:
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
    }


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
            "tokens of each window are its prompt; --prefill N chooses another number, and fp16 needs the same to "
            "compare",
            file=sys.stderr,
        )
