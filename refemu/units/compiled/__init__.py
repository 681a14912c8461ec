"""Compiled forms from the text of declared units whose events compute with integers and `arith.scalar32`.

numba compiles the unchanged methods of the readable form (`lifted`), in a loop over devices and events. The widths of
the ports must bound every value to 64 bits, and every index to its vector (`bounds`). Otherwise a configuration runs
the readable form.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from refemu.arith.checks import Refused
from refemu.units.compiled.form import Form
from refemu.units.compiled.scalars import GivenUp
from refemu.units.derivation import Arrays, compiled_run


def derived(unit: Any) -> Callable[..., Any]:
    """The compiled `run` of a declared unit; raises Refused if a line of its events has no compiled form."""
    _form(unit.unit_class(**next(iter(unit.configs.values()))))

    @compiled_run(unit)
    def run(device: Any, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
        """Run one loop over devices and events."""
        prepared = _prepared_of(device)
        if prepared.refusal:
            raise GivenUp
        arrays = (*inputs, *outputs) if unit.timing == "event" else [each[None] for each in (*inputs, *outputs)]
        counts: Sequence[int] = prepared.module.loop(*prepared.arguments, *arrays)
        return counts

    @functools.wraps(run)
    def bounded(*values: Any, **named: Any) -> Any:
        try:
            return run(*values, **named)
        except GivenUp:
            return unit.run(*values, **named)

    return bounded


def refusal(device: Any) -> str:
    """Reason why a device has no compiled form: a value that may exceed 64 bits; "" if it has one."""
    return _prepared_of(device).refusal


class _Prepared(NamedTuple):
    """The compiled form of a device."""

    refusal: str
    module: Any = None  #: with `loop`
    arguments: tuple[Any, ...] = ()  #: first arguments: constants, lengths of lists, registers at reset


def _prepared_of(device: Any) -> _Prepared:
    values: dict[str, Any] = device.__dict__
    kind: Any = type(device)
    return _prepared(kind, *(values[name] for name in device._names))


@functools.lru_cache(maxsize=1024, typed=True)
def _prepared(unit_class: Any, *values: Any) -> _Prepared:
    device = unit_class(**dict(zip(unit_class._names, values, strict=True)))
    form = _form(device)
    try:
        lengths = form.lengths_of(device)
    except Refused as error:
        return _Prepared(str(error))
    module = form.module(*lengths)
    return _Prepared("", module, (form.constants_of(device), tuple(lengths.values()), form.initial_of(device)))


_forms: dict[tuple[Any, ...], "Form"] = {}  #: forms by class and vector ports


def _form(device: Any) -> "Form":
    key = type(device), *((port.name, port.lanes is None) for port in device.ports.all)
    if key not in _forms:
        _forms[key] = Form(device)
    return _forms[key]
