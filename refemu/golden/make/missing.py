"""Refusal of requested units that have no cases, with the reason."""

from collections.abc import Collection, Sequence
from typing import Any

from refemu.arith.checks import Refused
from refemu.golden.make import model_cases
from refemu.golden.make.model_cases import Source
from refemu.units.unit import AnyUnit, Kind

Target = tuple[AnyUnit, str, Any]  #: unit, name of a configuration, where its set goes


def require_cases(
    units: Sequence[AnyUnit],
    targets: Sequence[Target],
    kinds: Sequence[Kind],
    seed: int,
    taps: Collection[tuple[str, str]],
    runs: Sequence[Source],
) -> None:
    """Refuse units of which no target has a case, with a line for each that says why.

    taps: pairs of unit and configuration to whose ports a model's run brought something. runs: the runs of models.
    """
    served = {
        unit.name for unit, config, _ in targets if (unit.name, config) in taps or _has_cases(unit, config, kinds, seed)
    }
    missing = {unit.name: unit for unit in units if unit.name not in served}
    if not missing:
        return
    offered = {unit.name for unit, _, _ in targets}
    lines = [
        f"  {name}: {_why(unit, kinds, runs) if name in offered else _no_configuration(unit)}"
        for name, unit in missing.items()
    ]
    count = len({unit.name for unit in units})
    raise Refused(
        f"generate: units: each must have cases, got none for {len(missing)} of {count}; nothing was "
        "written:\n" + "\n".join(lines)
    )


def _has_cases(unit: AnyUnit, config: str, kinds: Sequence[Kind], seed: int) -> bool:
    """Whether there is a case that comes from no model; only the first is made."""
    return any(True for kind in kinds if kind != "model" for _ in unit.cases(unit.configs[config], kind, seed))


def _no_configuration(unit: AnyUnit) -> str:
    return f"none of its configurations is asked for: {', '.join(unit.configs)}"


def _why(unit: AnyUnit, kinds: Sequence[Kind], runs: Sequence[Source]) -> str:
    reasons = [f"no cases of kind {', '.join(kinds)}"]
    for run in runs:
        if unit.name in model_cases.tapped_units(run):
            reasons.append(
                f"no ready configuration fits what {run.tokens} tokens of {run.model} bring to its ports "
                f"under scheme {run.scheme}"
            )
        else:
            reasons.append(f"scheme {run.scheme} does not tap it")
    return "; ".join(reasons)
