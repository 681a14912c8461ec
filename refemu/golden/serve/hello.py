"""Description of a unit that a server sends before the first request, and that exported sources check."""

import hashlib
import json
from typing import Any

import refemu
from refemu.golden.make.build import expanded
from refemu.golden.serve.layout import Group, Layout
from refemu.units import parameters
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

PROTOCOL = 1  #: version of the frames


def layouts(unit: AnyUnit, config: str, registers: bool = False, care: bool = False) -> tuple[Layout, Layout]:
    """Places of the inputs of a transaction, and of its answer: outputs, registers, masks of outputs."""
    ports = unit.ports(unit.config(config))
    answers: list[tuple[Group, Port]] = [("out", port) for port in ports.outputs]
    answers += [("st", port) for port in ports.state if registers]
    answers += [("care", Port(port.name, port.bits, port.lanes)) for port in ports.outputs if care]
    return Layout([("in", port) for port in ports.inputs]), Layout(answers)


def hello(unit: AnyUnit, config: str, registers: bool = False, care: bool = False) -> dict[str, Any]:
    """Unit, parameters, places of ports, numbers of words, release, and a digest of all but the release."""
    asked, answers = layouts(unit, config, registers, care)
    said = {
        "protocol": PROTOCOL,
        "unit": unit.name,
        "version": unit.version,
        "set": parameters.set_name(unit, config),
        "parameters": {name: expanded(value) for name, value in parameters.full(unit, unit.config(config)).items()},
        "timing": unit.timing,
        "ports": [place.item for layout in (asked, answers) for place in layout.places],
        "words_in": asked.words,
        "words_out": answers.words,
    }
    text = json.dumps(said, sort_keys=True, ensure_ascii=True)
    return {**said, "digest": hashlib.sha256(text.encode()).hexdigest(), "refemu": refemu.__version__}
