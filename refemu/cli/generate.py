"""`refemu generate`: write golden sets, campaigns, or a stimulus for a pipe."""

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, get_args

from refemu.cli import source
from refemu.cli.output import counted, print_json, print_lines, print_table, size
from refemu.cli.progress import progress

if TYPE_CHECKING:
    from refemu.golden.campaign.plan import Request

CAMPAIGN = ("cases", "layer", "win", "workers", "scheduler")  #: options of a campaign
_DIGITS = 4  # of the number of a block, since the model is not loaded yet
SETS = (
    "model",
    "scheme",
    "text",
    "ids",
    "tokens",
    "hex",
    "bin",
    "json",
    "complete",
    "prove",
)  #: options of sets in files


def run(arguments: argparse.Namespace) -> int:
    """Write sets and print a table, or write the stimulus of one unit to standard output; return 0."""
    if arguments.stdout:
        return _stream(arguments)
    _leave_out(arguments, "config", why="a set is written for every configuration")
    if any(getattr(arguments, option) is not None for option in CAMPAIGN):
        return _campaign(arguments)
    if arguments.minimal:
        return _minimal(arguments)
    from refemu import golden
    from refemu.models import text

    if arguments.complete is None:
        _leave_out(arguments, "prove", why="--prove works with --complete only")
    with progress() as bar:
        summaries = golden.generate(
            arguments.out,
            units=arguments.unit,
            kinds=None if arguments.kinds is None else arguments.kinds.split(","),
            model=arguments.model,
            scheme=arguments.scheme,
            text=text.read(arguments.text) if arguments.text else None,
            tokens=arguments.tokens,
            seed=arguments.seed,
            hex=arguments.hex,
            bin=arguments.bin,
            progress=bar,
            token_ids=_ids(arguments),
            complete=arguments.complete.split(",") if arguments.complete else arguments.complete is not None,
            prove=arguments.prove or 0,
        )
    if arguments.json:
        print_json("generate", {"sets": [dataclasses.asdict(summary) for summary in summaries]})
        return 0
    from refemu.units.unit import Kind

    kinds = [kind for kind in get_args(Kind) if any(kind in summary.kinds for summary in summaries)]
    rows = [
        [summary.name, summary.rows, *(summary.kinds.get(kind, "") for kind in kinds), size(summary.bytes)]
        for summary in summaries
    ]
    columns = ["set", "rows", *kinds, "size"]
    print_table(f"golden vectors in {arguments.out}", columns, rows, columns[1:])
    for summary in summaries:
        for case in summary.left_out:
            print(f"not in {summary.name}, whose parameters do not fit: {case}")
    for summary in summaries:
        for line in summary.elsewhere:
            print(f"not in any set: {line}")
    return 0


def _minimal(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from refemu import golden
    from refemu.arith.checks import Refused
    from refemu.golden.files import store

    _leave_out(
        arguments,
        "model",
        "scheme",
        "text",
        "ids",
        "tokens",
        "hex",
        "bin",
        "complete",
        "prove",
        why="--minimal chooses among paper, edge and random cases",
    )
    if not arguments.unit:
        raise Refused("generate: --minimal needs at least one --unit")
    kinds = None if arguments.kinds is None else arguments.kinds.split(",")
    store.sweep(Path(arguments.out))
    written = golden.generate_minimal(arguments.out, arguments.unit, kinds, arguments.seed)
    if arguments.json:
        print_json("generate", {"minimal": [dataclasses.asdict(each) for each in written]})
        return 0
    columns = ["set", "rows", "of"]
    rows = [[each.name, each.rows, each.rows_of_all] for each in written]
    print_table(f"rows with the coverage of all rows, in {arguments.out}", columns, rows, columns[1:])
    return 0


def _stream(arguments: argparse.Namespace) -> int:
    from refemu import units
    from refemu.arith.checks import Refused, require_choice
    from refemu.golden.compare import pipe
    from refemu.units.unit import KINDS

    _leave_out(arguments, *CAMPAIGN, *SETS, why="--stdout writes the stimulus of one unit")
    if len(arguments.unit or ()) != 1:
        raise Refused(f"generate: --stdout takes exactly one --unit, got {len(arguments.unit or ())}")
    unit, config = units.choose(arguments.unit[0], arguments.config)
    kinds = list(KINDS[:-1]) if arguments.kinds is None else arguments.kinds.split(",")
    for kind in kinds:
        require_choice(kind, KINDS[:-1], "generate --stdout", "kinds")
    print_lines(lines.decode() for lines in pipe.stimulus(unit, config, kinds, arguments.seed))
    return 0


def _campaign(arguments: argparse.Namespace) -> int:
    """Generate a campaign; a second run of the same command generates the missing shards."""
    from refemu.golden.campaign import plan as campaign

    wanted = _model_request(arguments) if arguments.layer is not None else _random_request(arguments)
    with progress() as bar:
        outcome = campaign.run(
            wanted,
            arguments.out,
            workers=arguments.workers or 1,
            scheduler=arguments.scheduler,
            progress=bar,
            notice=lambda text: print(f"refemu: {text}", file=sys.stderr),
        )
    if arguments.json:
        print_json("generate", {"campaign": dataclasses.asdict(outcome)})
        return 0
    print(
        f"{counted(outcome.shards, 'shard')} in {arguments.out}, {outcome.made} of them new: {outcome.rows} rows, "
        f"{size(outcome.bytes)}\nsha256 {outcome.sha256}"
    )
    return 0


def _random_request(arguments: argparse.Namespace) -> "Request":
    from refemu.arith.checks import Refused
    from refemu.golden.campaign import plan as campaign

    if not arguments.cases:
        raise Refused(
            "generate: --workers, --scheduler and --win need a campaign: give --cases N for random cases, or "
            "--layer L,... and --tokens N for cases of a model"
        )
    _only(arguments, "random", "model", "scheme", "text", "ids", "tokens", "win", "hex", "bin", "complete", "prove")
    return campaign.request(arguments.cases, units_=arguments.unit, seed=arguments.seed)


def _model_request(arguments: argparse.Namespace) -> "Request":
    from refemu.arith.checks import Refused
    from refemu.golden.campaign import plan as campaign
    from refemu.models import text

    if not arguments.tokens:
        raise Refused("generate: --layer needs --tokens N")
    _only(arguments, "model", "cases", "seed", "hex", "bin", "complete", "prove")
    return campaign.model_request(
        arguments.tokens,
        model=arguments.model,
        schemes=arguments.scheme,
        text=text.read(arguments.text) if arguments.text else None,
        layers=_layers(arguments.layer),
        window=arguments.win or campaign.WINDOW,
        units_=arguments.unit,
        token_ids=_ids(arguments),
    )


def _ids(arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --ids; None without it."""
    if arguments.ids is None:
        return None
    from refemu import models
    from refemu.golden.make.model_cases import DEFAULT_MODEL

    return source.listed_ids(models.load(arguments.model or DEFAULT_MODEL), arguments)


def _only(arguments: argparse.Namespace, kind: str, *options: str) -> None:
    """Raise Refused for `options`, and for --kinds other than `kind`."""
    without = ("kinds",) if arguments.kinds not in (None, kind) else ()
    _leave_out(arguments, *options, *without, why=f"this campaign has only {kind} cases")


def _leave_out(arguments: argparse.Namespace, *options: str, why: str) -> None:
    from refemu.arith.checks import Refused

    for option in options:
        if getattr(arguments, option) not in (None, False, 0):
            raise Refused(f"generate: {why}: leave out --{option}")


def _layers(text: str) -> list[int] | None:
    """Parse `0-3,7` to [0, 1, 2, 3, 7]; None for all."""
    from refemu.arith.checks import Refused

    if text == "all":
        return None
    layers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not (_is_block(first) and (_is_block(last) if dash else True)) or int(last or first) < int(first):
            raise Refused(f"generate: --layer takes blocks such as 0-3,7 or all, got {text[:60]!r}")
        layers |= set(range(int(first), int(last or first) + 1))
    return sorted(layers)


def _is_block(word: str) -> bool:
    return word.isdecimal() and len(word) <= _DIGITS
