"""Options of an accelerator, its total, trace and pictures, for `refemu cost` and `refemu machine`."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli.output import TIED, print_table


def options(arguments: argparse.Namespace) -> str:
    """The options of the accelerator as one text."""
    overlap = f"overlap={arguments.overlap}" if arguments.overlap else ""
    return ",".join(part for part in (arguments.machine, overlap) if part)


def require_files(arguments: argparse.Namespace) -> None:
    """Raise Refused for pictures that cannot be drawn and folders that are not there, before any computation."""
    from refemu import plotting

    for path in (arguments.plot, arguments.roofline):
        if path:
            plotting.require(path)
    for option in ("trace", "plot", "roofline"):
        file = getattr(arguments, option)
        if file and not Path(file).parent.is_dir():
            raise Refused(f"--{option} {file}: the folder must exist, got {Path(file).parent}; create it")


def save(arguments: argparse.Namespace, line: Sequence[Any], system: Any, title: str) -> None:
    """Write the files of --trace, --plot and --roofline for the schedule of a block, each one atomically."""
    from refemu.models.machine import charts, trace

    files = arguments.trace, arguments.plot, arguments.roofline
    if any(files) and system is None:
        raise Refused(
            "--trace, --plot and --roofline need records of work, and this accelerator has none; leave them out"
        )
    if arguments.trace:
        text = json.dumps(trace.events(line, system), indent=1)
        _write(arguments.trace, text.encode())
    for path, draw in ((arguments.plot, charts.gantt), (arguments.roofline, charts.roofline)):
        if path:
            _write(path, draw(line, system, title, Path(path).suffix[1:]))


def _write(path: str, content: bytes) -> None:
    temporary = Path(f"{path}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def show_total(total: Mapping[str, Any] | None, system: Any) -> None:
    """Print the total of a report."""
    if total is None:
        return
    rows = [
        ("cycles", _number(total["cycles"])),
        (f"time at {system.clock / 1e6:g} MHz", "" if total["seconds"] is None else _time(total["seconds"])),
        ("tokens a second", _rounded(total["tokens_per_second"])),
        ("bound by", total["bound"] or ""),
        ("busy cycles", listed(total["busy"])),
        ("bytes", listed(total["bytes"])),
        ("bandwidth", _bandwidth(total, system)),
        ("share of the peak", _share(total, system)),
        ("energy", _energy(total["energy_pj"], system)),
    ]
    print_table("total", ("", "value"), [list(row) for row in rows])
    prices = [
        [part, f"{float(price.picojoules):.4g}", price.event, price.source] for part, price in _used(total, system)
    ]
    if prices:
        print_table("prices", ("part", "pJ", "of a", "source"), prices, ("pJ",))


def listed(counts: Mapping[str, int]) -> str:
    """Counts by name, in one cell."""
    return ", ".join(f"{name}{TIED}{_number(count)}" for name, count in counts.items())


def _used(total: Mapping[str, Any], system: Any) -> list[tuple[str, Any]]:
    return [(part, system.prices[part]) for part in total["energy_pj"] if part in system.prices]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f} us" if seconds < 1 else f"{seconds:,.4g} s"


def _bandwidth(total: Mapping[str, Any], system: Any) -> str:
    if not total["seconds"]:
        return ""
    moved = sum(int(size) for size in total["bytes"].values())
    peak = float(system.rate * system.clock)
    return f"{moved / total['seconds'] / 1e9:,.4g} of {peak / 1e9:,.4g} GB/s ({system.sources.get('rate', '')})"


def _share(total: Mapping[str, Any], system: Any) -> str:
    if total["peak_share"] is None:
        return ""
    peak = 2 * system.peak * system.clock / 1e12
    achieved = peak * total["peak_share"]
    place = system.sources.get("peak", "")
    return f"{100 * total['peak_share']:.1f} %: {achieved:,.4g} of {peak:,.4g} T operations/s ({place})"


def _energy(energy: Mapping[str, float | None], system: Any) -> str:
    known = {part: value for part, value in energy.items() if value is not None}
    shown = ", ".join(f"{part}{TIED}{value / 1e6:,.4g}{TIED}uJ" for part, value in known.items())
    missing = ", ".join(part for part, value in energy.items() if value is None)
    return "; ".join(part for part in (shown, f"no energy: {missing} ({system.no_price})" if missing else "") if part)
