"""Which units `refemu prove` lifts: nodes, seconds of processor time, rows of the self-check, or the line in the way.

python -m tools.lifts [--json] [--seconds N] [UNIT[:config] ...]   # by default one configuration of every unit
"""

import argparse
import json
import sys
import time
from typing import Any

from refemu import units
from refemu.arith.checks import Refused
from refemu.prove import lift, selfcheck

#: configuration of a unit whose first one has too many terms; the others have their first one
SMALL = {"free_page_list": "small", "index_function": "relu", "k_offset": "small"}


def row(name: str, config: str, seconds: float) -> dict[str, Any]:
    """What is known of one configuration."""
    unit, began = units.find(name), time.process_time()
    found: dict[str, Any] = {"unit": name, "config": config, "lifts": False, "nodes": 0, "rows": 0, "why": ""}
    ports = unit.ports(unit.configs[config])
    found["inputs"] = sum(port.bits * port.count for port in ports.inputs)
    found["registers"] = sum(port.bits * port.count for port in ports.outputs + ports.state) * (unit.timing == "event")
    try:
        lifted = lift.lift(unit, unit.configs[config], seconds)
        found |= {"nodes": lifted.nodes, "rows": selfcheck.check(lifted), "lifts": True}
    except (Refused, selfcheck.Disagrees) as error:
        found["why"] = str(error)
    return {**found, "seconds": round(time.process_time() - began, 2)}


def main() -> int:
    """Print the table; return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("units", nargs="*", metavar="UNIT")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=120, help="limit of each lift (default: 120)")
    arguments = parser.parse_args()
    sys.setrecursionlimit(20_000)
    rows = []
    for spec in arguments.units or units.names():
        name, _, config = spec.partition(":")
        ready = config or SMALL.get(name) or next(iter(units.find(name).configs))
        found = row(name, ready, arguments.seconds)
        rows.append(found)
        if not arguments.json:
            says = f"{found['nodes']} nodes, {found['rows']} rows" if found["lifts"] else found["why"]
            print(
                f"{'lifts' if found['lifts'] else 'does not':9}{found['seconds']:8.2f} s  {name}:{ready}: {says}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"{sum(found['lifts'] for found in rows)} of {len(rows)} lift")
    return 0


if __name__ == "__main__":
    sys.exit(main())
