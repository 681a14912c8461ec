"""`UNIT_ref.sv`: terms as named signals, the registers around them, and a module with the unit's ports."""

from collections.abc import Iterator, Sequence

from refemu.golden.formal.reference import Reference, Register
from refemu.golden.rtl.keywords import SYSTEMVERILOG, C
from refemu.golden.rtl.wrapper import range_, width
from refemu.prove import verilog
from refemu.prove.lift import name_of
from refemu.prove.statements import free_name, statements
from refemu.prove.terms import Term
from refemu.units.ports import Port

LEGAL = "ref_legal"


def text(reference: Reference) -> str:
    """Modules `UNIT_ref_terms`, `UNIT_ref_model` of a unit with registers, and `UNIT_ref`."""
    modules = [_terms(reference)]
    if reference.registers:
        modules.append(_model(reference))
    return "\n".join([*modules, _plain(reference)])


def model(reference: Reference) -> str:
    """Name of the module that also says what is legal and what counts."""
    return f"{reference.unit.name}_ref_{'model' if reference.registers else 'terms'}"


def ports_of(reference: Reference) -> tuple[Port, ...]:
    """Inputs and outputs."""
    ports = reference.lifted.device.ports
    return (*ports.inputs, *ports.outputs)


def declared(direction: str, group: Sequence[Port], prefix: str = "") -> list[str]:
    """Declarations of ports of a module."""
    return [f"  {direction} wire {range_(width(port))}{prefix}{port.name}" for port in group]


def module(name: str, about: str, ports: Sequence[str], body: Sequence[str]) -> str:
    """A module."""
    return "\n".join([f"// {about}", f"module {name} (", ",\n".join(ports), ");", *body, "endmodule", ""])


def extra(reference: Reference, direction: str) -> list[str]:
    """Ports of the model in addition to those of the unit: whether inputs are legal, and the bits that count."""
    ports = reference.lifted.device.ports
    cared = [port for port in ports.outputs if port.name in reference.care]
    return [f"  {direction} wire {LEGAL}", *declared(direction, cared, "care_")]


def _joined(lanes: Sequence[str]) -> str:
    """Lanes as one word, lane 0 lowest."""
    return lanes[0] if len(lanes) == 1 else f"{{{', '.join(reversed(lanes))}}}"


def _lanes(port: Port, prefix: str, taken: set[str]) -> tuple[dict[str, str], list[str]]:
    """The signal of each lane by the name of its variable, and their declarations."""
    word = f"{prefix}{port.name}"
    if port.count == 1:
        return {name_of(port, 0, prefix): word}, []
    names, lines = {}, []
    for lane in range(port.count):
        name = free_name(f"{word}_{lane}", taken)
        names[name_of(port, lane, prefix)] = name
        lines.append(f"  wire {range_(port.bits)}{name} = {word}[{lane * port.bits} +: {port.bits}];")
    return names, lines


def reserved(reference: Reference) -> set[str]:
    """Names that no signal may have."""
    names = [port.name for port in (*reference.lifted.device.ports.all, *(each.port for each in reference.registers))]
    prefixed = {prefix + name for name in names for prefix in ("", "q_", "care_")}
    return {*C, *SYSTEMVERILOG, *prefixed, *(f"{name}_q" for name in names), "clk", "rst", LEGAL}


def _terms(reference: Reference) -> str:
    """The module of one event: inputs and registers before it, outputs and registers after it."""
    lifted, taken = reference.lifted, reserved(reference)
    ports = lifted.device.ports
    read = [each.port for each in reference.registers if each.read]
    variables: dict[str, str] = {}
    body: list[str] = []
    for prefix, group in (("", ports.inputs), ("q_", read)):
        for port in group:
            names, lines = _lanes(port, prefix, taken)
            variables |= names
            body += lines
    named: list[tuple[str, Sequence[Term]]] = [
        (port.name, lifted.terms[port.name]) for port in (*ports.outputs, *ports.state)
    ]
    named += [(f"care_{name}", lanes) for name, lanes in reference.care.items()]
    roots = [lifted.legal, *(each for _, lanes in named for each in lanes)]
    lines_, texts = statements(roots, reference.names, variables, taken, verilog.LANGUAGE)
    body += [f"  {verilog.declared(each)}" for each in lines_]
    body.append(f"  assign {LEGAL} = {texts[0]};")
    rest = iter(texts[1:])
    body += [f"  assign {name} = {_joined([next(rest) for _ in lanes])};" for name, lanes in named]
    heads = [
        *declared("input ", ports.inputs),
        *declared("input ", read, "q_"),
        *declared("output", (*ports.outputs, *ports.state)),
        *extra(reference, "output"),
    ]
    about = f"{reference.set}: each signal has the name of a function or a local of the readable text"
    return module(f"{reference.unit.name}_ref_terms", about, heads, body)


def _next(register: Register) -> str:
    """The value of a register after an edge."""
    return {"number": "1'b1", "input": register.port.name}.get(register.kind, f"next_{register.port.name}")


def _model(reference: Reference) -> str:
    """The module of the registers: an event is one rising edge with `rst` low."""
    ports = reference.lifted.device.ports
    kept = [each for each in reference.registers if each.kind in ("output", "state")]
    body = [f"  reg {range_(width(each.port))}{each.port.name}_q;" for each in reference.registers]
    body += [f"  wire {range_(width(each.port))}next_{each.port.name};" for each in kept]
    connected = [
        *(f".{port.name}({port.name})" for port in ports.inputs),
        *(f".q_{each.port.name}({each.port.name}_q)" for each in reference.registers if each.read),
        *(f".{each.port.name}(next_{each.port.name})" for each in kept),
        f".{LEGAL}({LEGAL})",
    ]
    body += [f"  {reference.unit.name}_ref_terms terms (", "    " + ",\n    ".join(connected), "  );"]
    body += ["  always @(posedge clk) begin", *_edge(reference), "  end"]
    body += [f"  assign {port.name} = {port.name}_q;" for port in (*ports.outputs, *ports.state)]
    heads = ["  input  wire clk", "  input  wire rst", *declared("input ", ports.inputs)]
    heads += [*declared("output", (*ports.outputs, *ports.state)), *extra(reference, "output")]
    return module(model(reference), "The registers; a row is one rising edge with rst low.", heads, body)


def _edge(reference: Reference) -> Iterator[str]:
    for register in reference.registers:
        name, bits = register.port.name, width(register.port)
        yield f"    {name}_q <= rst ? {verilog.constant(register.reset, bits)} : {_next(register)};"


def instance(reference: Reference, outputs: str, used: Sequence[str]) -> list[str]:
    """Lines that instantiate the model. outputs: prefix of the signals of outputs. used: extra ports to connect."""
    ports = reference.lifted.device.ports
    clocks = ["clk", "rst"] if reference.registers else []
    extras = [line.split()[-1] for line in extra(reference, "output")]
    connected = [f".{name}({name})" for name in (*clocks, *(port.name for port in ports.inputs))]
    connected += [f".{port.name}({outputs}{port.name})" for port in ports.outputs]
    connected += [f".{port.name}()" for port in ports.state if reference.registers]
    connected += [f".{name}({name if name in used else ''})" for name in extras]
    return [f"  {model(reference)} model (", "    " + ",\n    ".join(connected), "  );"]


def _plain(reference: Reference) -> str:
    """The module with the ports that a device has."""
    ports = reference.lifted.device.ports
    clocks = [f"  input  wire {name}" for name in ("clk", "rst") if reference.registers]
    heads = [*clocks, *declared("input ", ports.inputs), *declared("output", ports.outputs)]
    about = "The ports of a device; `make TOP=` of a testbench takes it."
    return module(f"{reference.unit.name}_ref", about, heads, instance(reference, "", ()))
