"""`UNIT_ref.smt2`: legality asserted, and every output and next register defined."""

import re

from refemu.golden.formal.reference import Reference
from refemu.prove import smtlib
from refemu.prove.lift import name_of
from refemu.prove.statements import free_name


def text(reference: Reference) -> str:
    """The script; add assertions on `out.PORT`, lane by lane, and `(check-sat)`."""
    lifted = reference.lifted
    ports = lifted.device.ports
    defined = {
        f"out.{name_of(port, lane)}": term
        for port in (*ports.outputs, *ports.state)
        for lane, term in enumerate(lifted.terms[port.name])
    }
    defined |= {
        f"care.{name}_{lane}": term for name, lanes in reference.care.items() for lane, term in enumerate(lanes)
    }
    about = [
        f"{reference.set}: inputs and q_ registers are free, legal ones are asserted.",
        "out. symbols are outputs and registers after the event, text. symbols the readable text.",
    ]
    taken = set[str]()
    names = {f"t{n}": free_name(f"text.{name}", taken) for n, (_, name) in reference.names.known.items()}
    script = smtlib.script([lifted.legal], about, defined)
    numbered = dict[str, str]()

    def named(match: re.Match[str]) -> str:
        symbol = match[0]
        return names.get(symbol) or numbered.setdefault(symbol, f"t{len(numbered) + 1}")

    return re.sub(r"(?<![|.\w])t\d+\b", named, script)
