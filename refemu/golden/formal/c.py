"""`UNIT_ref.c`: one event as a C function of arrays of ports, without loops, branches or other pointers."""

from collections.abc import Sequence

from refemu.golden.formal.reference import Reference
from refemu.golden.formal.systemverilog import reserved
from refemu.prove import ctext
from refemu.prove.lift import name_of
from refemu.prove.statements import free_name, statements
from refemu.units.ports import Port


def text(reference: Reference) -> str:
    """The source; the function returns whether inputs and registers are legal."""
    lifted, taken = reference.lifted, reserved(reference)
    ports = lifted.device.ports
    read = [each.port for each in reference.registers if each.read]
    after = (*ports.outputs, *ports.state)
    variables, lines = dict[str, str](), list[str]()
    for prefix, group in (("", ports.inputs), ("q_", read)):
        for port in group:
            for lane in range(port.count):
                name = variables[name_of(port, lane, prefix)] = free_name(f"{prefix}{port.name}_{lane}", taken)
                mask = ctext.constant((1 << port.bits) - 1, port.bits)
                lines.append(f"const uint64_t {name} = {prefix}{port.name}[{lane}] & {mask};")
    roots = [lifted.legal, *(each for port in after for each in lifted.terms[port.name])]
    locals_, texts = statements(roots, reference.names, variables, taken, ctext.LANGUAGE)
    lines += map(ctext.declared, locals_)
    rest = iter(texts[1:])
    lines += [f"{port.name}[{lane}] = ({_word(port)}){next(rest)};" for port in after for lane in range(port.count)]
    lines.append(f"return (uint8_t){texts[0]};")
    arguments = [*_arrays(ports.inputs, "const "), *_arrays(read, "const ", "q_"), *_arrays(after)]
    wide = "typedef unsigned __int128 uint128_t;\n\n" if any("uint128_t" in line for line in lines) else ""
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"/* {reference.set}: each local has the name of a function or a local of the readable text.\n"
        "   Words are in two's complement. q_ arrays are registers before the event, the last arrays\n"
        "   outputs and registers after it. Returns 1 if inputs and registers are legal. */\n"
        f"#include <stdint.h>\n\n{wide}uint8_t {reference.unit.name}_ref(\n    "
        + ",\n    ".join(arguments)
        + f")\n{{\n{body}\n}}\n"
    )


def _word(port: Port) -> str:
    return f"uint{8 * port.dtype.itemsize}_t"


def _arrays(group: Sequence[Port], const: str = "", prefix: str = "") -> list[str]:
    return [f"{const}{_word(port)} {prefix}{port.name}[{port.count}]" for port in group]
