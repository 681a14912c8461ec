"""`refemu ppl`: the perplexity of a text under a scheme."""

import argparse

from refemu.cli import source
from refemu.cli.output import print_json, print_table
from refemu.cli.progress import progress


def run(arguments: argparse.Namespace) -> int:
    """Print the perplexity with its standard error over windows; return 0."""
    from refemu import models
    from refemu.models import schemes
    from refemu.studies import perplexity, uncertainty
    from refemu.studies.evaluation import label, seeded

    perplexity.require_decoding(schemes.parse(arguments.scheme), arguments.prefill)
    model = models.load(arguments.model)
    ids = source.ids(model, arguments)[: arguments.tokens]
    calibration = source.calibration_ids(model, arguments)
    if arguments.windows:
        ids = ids[: arguments.windows * arguments.win]
    perplexity.windows(
        model.config.context, ids, arguments.win, arguments.prefill
    )  # an error before the work of `prepare`
    with progress() as report:
        prepared = models.prepare(model, arguments.scheme, calibration=calibration, progress=report)
        measured = perplexity.perplexity(prepared, ids, win=arguments.win, prefill=arguments.prefill, progress=report)
    loss = uncertainty.spread(measured.windows).error
    spread = None if loss is None else measured.perplexity * loss
    row = {
        "model": model.name,
        "seeded": seeded(model),
        "scheme": arguments.scheme,
        "tokens": len(ids),
        "scored": measured.scored,
        "win": arguments.win,
        "windows": list(measured.of_windows),
        "perplexity": measured.perplexity,
        "error": spread,
    }
    if arguments.json:
        print_json("ppl", row)
        return 0
    columns = ["model", "scheme", "tokens", "scored", "win", "windows", "perplexity", "±"]
    error = "" if spread is None else f"{spread:.4f}"
    cells = [label(model), arguments.scheme, len(ids), measured.scored, arguments.win, len(measured.windows)]
    print_table(
        "perplexity, ± standard error over the windows",
        columns,
        [[*cells, f"{measured.perplexity:.4f}", error]],
        columns[2:],
    )
    return 0
