"""`refemu simulate`: serve requests on pages of a GPU, and report batch size, pages, stalls and throughput."""

import argparse
import gc
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli.output import print_json, print_table
from refemu.cli.progress import progress

DRAWN = ("requests", "seed", "prompt", "generate")  #: options of drawn requests, in addition to --rate


def run(arguments: argparse.Namespace) -> int:
    """Print the report of a simulation; return 0."""
    from refemu.models.schemes import registry

    if arguments.plot:
        from refemu import plotting

        plotting.require(arguments.plot)
    serving = registry.serving()
    setting = serving.Setting(**_given(arguments, serving.Setting))
    trace = _trace(arguments, serving)
    gc.freeze()  # steps make no cycles, so what was imported need not be searched for them again and again
    try:
        with progress() as shown:
            report = serving.simulate(arguments.scheme, trace, setting, arguments.state, shown)
    finally:
        gc.unfreeze()
    if arguments.plot:
        from refemu.scratch import write_file
        from refemu.studies.output import plot
        from refemu.studies.output import serving as drawn

        write_file(Path(arguments.plot), plot.draw(drawn.figures(report), Path(arguments.plot).suffix[1:]))
    if arguments.json:
        print_json("simulate", report.as_json())
    else:
        _show(report)
    return 0


def _given(arguments: argparse.Namespace, setting: Any) -> dict[str, Any]:
    """Options of the command line that are fields of a setting."""
    return {
        name: getattr(arguments, name) for name in setting.__dataclass_fields__ if getattr(arguments, name) is not None
    }


def _trace(arguments: argparse.Namespace, serving: Any) -> Any:
    """Requests of the file, or drawn ones."""
    options = {name: getattr(arguments, name) for name in DRAWN if getattr(arguments, name) is not None}
    if arguments.trace is not None:
        extra = [name for name in options if name != "seed"] + ["rate"] * (arguments.rate is not None)
        if extra:
            raise Refused(f"simulate: --trace has all requests, so --{extra[0]} changes nothing; leave out one of both")
        return serving.read(arguments.trace)
    if arguments.rate is None or arguments.requests is None:
        raise Refused("simulate: give --trace FILE, or --rate R with --requests N")
    return serving.drawn(rate=arguments.rate, **options)


def _show(report: Any) -> None:
    total, requests, pages = report.total, report.requests, report.pages
    rows = [
        ("batch size, mean and maximum", f"{_shown(total['batch']['mean'])}, {total['batch']['max']}"),
        ("tokens a second", _shown(total["tokens_per_second"])),
        ("seconds", _shown(total["seconds"])),
        ("steps: prompt, generation", f"{total['steps']['prompt']}, {total['steps']['generation']}"),
        ("seconds to the first token, mean", _shown(total["first_token_seconds"])),
        ("stalled steps, seconds", f"{total['stalls']['steps']}, {_shown(total['stalls']['seconds'])}"),
        ("seconds bound by memory, compute, link", ", ".join(_shown(x) for x in total["bound_seconds"].values())),
        *((f"requests {name}".removesuffix(" number"), count) for name, count in requests.items()),
        ("pages, bytes per page", f"{pages['number']}, {pages['bytes']}"),
        ("peak pages: high, low", f"{pages['peak']['high']}, {pages['peak']['low']}"),
        ("pages leaked", pages["leaked"]),
        ("fragmentation, mean and maximum", f"{_shown(pages['fragmentation'])}, {_shown(pages['fragmentation_max'])}"),
        ("not modelled", ", ".join(total["not_modelled"])),
    ]
    title = f"{report.shape} under {report.scheme} on {report.setting['workers']} {report.gpu}"
    print_table(title, ("quantity", "value"), rows)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"
