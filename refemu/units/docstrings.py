"""Numpydoc sections of `run` and `step`, from a unit's ports and the docstring of its constructor."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

from refemu.units.ports import Port, Ports
from refemu.units.stepping import Descriptor

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)  #: heading of a section
PATTERNS = {"f16": "float16 patterns", "f32": "float32 patterns"}  #: text instead of a range, by encoding of the port
#: methods of a stepping class whose arguments are ports, with their result
METHODS = {
    "step": ("State", "Ports, registers and counters after the event."),
    "validate_event": ("list", "One int per port, a tuple of them for lanes."),
    "validated": ("list of ndarray", "One array per port, all of one shape, lanes last."),
}
DTYPE = "An input has a dtype or a number of lanes that its port does not accept"


def section(docstring: str | None, title: str) -> str:
    """Extract the body of one section of a numpydoc docstring.

    Returns "" if there is no such section.
    """
    parts = HEADING.split(inspect.cleandoc(docstring or ""))
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(title, "").strip()


def sections(**bodies: str) -> str:
    """Format sections by title, without empty ones."""
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{body}" for title, body in bodies.items() if body)


def of_run(unit: Descriptor, signature: inspect.Signature) -> str:
    """Write the docstring of a unit's `run`: inputs from ports, parameters from the constructor's docstring."""
    config, ports = next(iter(unit.configs)), unit.ready_ports[0]
    axes = (
        "The last axis of the inputs, before lanes, is the sequence of events; other axes are devices, each from reset."
        if unit.timing == "event"
        else "Inputs are broadcast against each other; a result has their shape, `...` below."
    )
    widths = f"\nWidths are those of configuration {config!r}." if len(unit.configs) > 1 else ""
    arguments = _arguments(unit, ports, signature.parameters.values(), _array)
    body = sections(
        Parameters="\n".join([*arguments, section(unit.unit_class.__init__.__doc__, "Parameters")]).strip(),
        Returns=f"{unit.result.__name__}\n" + "\n".join(_results(unit, ports)),
        Raises="Refused\n    A value or a parameter is outside its range, or the shapes do not broadcast.\n"
        f"RefusedType\n    {DTYPE}, is missing or unknown.",
        References=f"[{unit.paper}]",
    )
    return f"Run {unit.name}: {unit.meaning}.\n\n{axes}{widths}\n\n{body}"


def of_constructor(hints: Mapping[str, Any], meanings: Mapping[str, str]) -> str:
    """Write the docstring of a declared unit's constructor. meanings: comments of the parameters."""
    entries = [f"{name} : {_type(hint)}\n    {_sentence(meanings.get(name, ''))}." for name, hint in hints.items()]
    raises = "Refused\n    A parameter is outside its range, or does not match the others."
    return f"Configure the unit.\n\n{sections(Parameters=chr(10).join(entries), Raises=raises)}"


def _type(hint: Any) -> str:
    """A type in a docstring: the values of a Literal, else Python's text."""
    if get_origin(hint) is Literal:
        return "{" + ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in get_args(hint)) + "}"
    return inspect.formatannotation(hint)


def methods(unit: Descriptor) -> None:
    """Append the sections to `step`, `accept` and `validated` of a unit's class, unless they have sections."""
    ports = unit.ready_ports[0]
    for name, returns in METHODS.items():
        function = vars(unit.unit_class).get(name)
        if function and function.__doc__ and not section(function.__doc__, "Parameters"):
            function.__doc__ = _of_method(unit, ports, function, returns)


def _of_method(unit: Descriptor, ports: Ports, function: Callable[..., Any], returns: tuple[str, str]) -> str:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    kind = _array if function.__name__ == "validated" else _event
    busy = "; or the unit is not ready for inputs" if any(each.default is None for each in parameters) else ""
    body = sections(
        Parameters="\n".join(_arguments(unit, ports, parameters, kind)),
        Returns=f"{returns[0]}\n    {returns[1]}",
        Raises=f"Refused\n    A value is outside its port's range{busy}.\nRefusedType\n    {DTYPE}.",
    )
    return f"{inspect.cleandoc(function.__doc__ or '')}\n\n{body}"


def _arguments(
    unit: Descriptor, ports: Ports, parameters: Iterable[inspect.Parameter], kind: Callable[[Port], str]
) -> list[str]:
    """One entry per parameter that is an input port."""
    others = [port for ready in unit.ready_ports for port in ready.inputs]
    known = {port.name: port for port in (*others, *ports.inputs)}
    entries = []
    for each in parameters:
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            entries.append(f"*{each.name} : {kind.__doc__}\n    One per input port, in order.")
        elif each.kind is inspect.Parameter.VAR_KEYWORD:
            entries.append(f"**{each.name} : {kind.__doc__}\n    The same by name of the port.")
        elif each.name in known:
            optional = ", optional" if each.default is None else ""
            port = known[each.name]
            entries.append(f"{each.name} : {kind(port)}{optional}\n    {_meaning(port)}; {_range(port)}.")
    return entries


def _results(unit: Descriptor, ports: Ports) -> Iterable[str]:
    """One line per output and register, then one for the counters."""
    known = {port.name: port for each in (*unit.ready_ports, ports) for port in each.outputs + each.state}
    names = [field.name for field in dataclasses.fields(unit.result)]
    for name in names:
        if name in known:
            port = known[name]
            yield f"    `{name}`: {port.result_dtype} {_shape(port)}, {port.meaning or port.kind}."
    counters = [f"`{name}`" for name in names if name not in known]
    if counters:
        yield f"    Totals: {', '.join(counters)}."


def _array(port: Port) -> str:
    """array_like"""
    return f"array_like of {port.dtype}" + (f" {_shape(port)}" if port.lanes else "")


def _event(port: Port) -> str:
    """int or tuple of int"""
    return f"sequence of {port.lanes} int" if port.lanes else "int"


def _shape(port: Port) -> str:
    return f"(..., {port.lanes})" if port.lanes else "(...)"


def _meaning(port: Port) -> str:
    """The port's meaning as the start of a sentence, unless it starts with a name or a formula."""
    if not port.meaning:
        return port.kind
    return port.meaning if port.meaning.split()[0].rstrip(",;:") == port.name else _sentence(port.meaning)


def _sentence(text: str) -> str:
    """A meaning as the start of a sentence, unless it starts with a name or a formula."""
    first = text.split(" ")[0].rstrip(",;:")
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def _range(port: Port) -> str:
    low, high = port.limits
    if port.bits >= 16 and port.least is None and port.most is None:
        return PATTERNS.get(
            port.encoding, f"-2**{port.bits - 1} to 2**{port.bits - 1} - 1" if port.signed else f"below 2**{port.bits}"
        )
    return f"{low} {'or' if high - low == 1 else 'to'} {high}"
