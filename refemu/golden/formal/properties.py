"""`UNIT_props.sv`: legal inputs as assumptions, outputs that count as assertions."""

from refemu.golden.formal.reference import Reference
from refemu.golden.formal.systemverilog import LEGAL, declared, extra, instance, module
from refemu.golden.rtl.wrapper import range_, width


def text(reference: Reference) -> str:
    """Module `UNIT_props`, `UNIT_check`, which has a design and the properties, and a `bind`."""
    return "\n".join([_properties(reference), _check(reference), _bind(reference)])


def _clocks(reference: Reference) -> list[str]:
    return [f"  input  wire {name}" for name in ("clk", "rst") if reference.registers]


def _properties(reference: Reference) -> str:
    ports = reference.lifted.device.ports
    cared = [line.split()[-1] for line in extra(reference, "output")]
    body = [f"  wire {range_(width(port))}expected_{port.name};" for port in ports.outputs]
    body += [f"  wire {range_(width(port))}care_{port.name};" for port in ports.outputs if port.name in reference.care]
    body += [f"  wire {LEGAL};", *instance(reference, "expected_", cared)]
    started = ""
    if reference.registers:
        started = "!started || "
        body += ["  reg started = 1'b0;  // after a first reset", "  always @(posedge clk) started <= started | rst;"]
    body.append("  always @* begin")
    if reference.registers:
        body += ["    assume_reset: assume (started || rst);", f"    assume_legal: assume (rst || {LEGAL});"]
    else:
        body.append(f"    assume_legal: assume ({LEGAL});")
    for port in ports.outputs:
        mask = f" & care_{port.name}" if port.name in reference.care else ""
        body.append(f"    assert_{port.name}: assert ({started}(({port.name} ^ expected_{port.name}){mask}) == 0);")
    heads = [*_clocks(reference), *declared("input ", (*ports.inputs, *ports.outputs))]
    about = f"{reference.set}: a design must have these outputs for all legal inputs"
    return module(f"{reference.unit.name}_props", about, heads, [*body, "  end"])


def _check(reference: Reference) -> str:
    ports, name = reference.lifted.device.ports, reference.unit.name
    clocks = ["clk", "rst"] if reference.registers else []
    names = [*clocks, *(port.name for port in (*ports.inputs, *ports.outputs))]
    connected = ", ".join(f".{each}({each})" for each in names)
    body = [f"  wire {range_(width(port))}{port.name};" for port in ports.outputs]
    body += [f"  {name} design_({connected});", f"  {name}_props props({connected});"]
    heads = [*_clocks(reference), *declared("input ", ports.inputs)]
    return module(f"{name}_check", "A design and its properties, for tools without bind", heads, body)


def _bind(reference: Reference) -> str:
    name = reference.unit.name
    return f"`ifdef REFEMU_BIND\nbind {name} {name}_props props(.*);\n`endif\n"
