"""Distributions that bring plug-ins, written into a folder as pip would install them there."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from refemu import plugins

#: a unit that clips a signed value; the functions in braces are changed by tests
CLIPPER = '''
from dataclasses import dataclass

import numpy as np

from refemu.arith import Refused
from refemu.units import Cases, Config, Flag, Port, Ports, Stepped, Unit


@dataclass(frozen=True)
class State:
    event: str
    index: int
    value: int
    clipped: int
    over: int
    operations: int


class Clipper(Stepped[State]):
    name = "clipper"

    def __init__(self, bits: int = 4) -> None:
        if not 2 <= bits <= 8:
            raise Refused(f"Clipper: bits must be in [2, 8], got {bits}")
        self.bits = bits
        self.ports = ports(Config(bits=bits))
        self.state = self.reset(State)

    def step(self, value: int) -> State:
        """Clip one value."""
        return self._open(*self.validate_event(value))

    def _open(self, value: int) -> State:
        high = (1 << (self.bits - 1)) - 1
        clipped = min(max(value, -high - 1), high)
        done = self.latched(value, event="clip", clipped=clipped, over=int(clipped != value))
        self.state = State(**{**vars(done), "operations": done.operations + 1})
        return self.state


def ports(config):
    return Ports((Port("value", 8, signed=True),), (Port("clipped", config["bits"], signed=True), Port("over", 1)))


def cases(config, kind, seed):
    if kind == "edge":
        yield Cases("edge", "every value", {"value": np.roll(np.arange(-128, 128), 100)})
    if kind == "random":
        seeds = seed if isinstance(seed, range) else (seed,)
        values = np.concatenate([(np.arange(32) * 37 + 11 * each) % 256 - 128 for each in seeds])
        yield Cases("random", "some values", {"value": values})


UNIT = Unit(
    name="clipper",
    paper="acme 1",
    meaning="clips a signed value",
    configs={"b4": Config(bits=4), "b6": Config(bits=6)},
    ports=ports,
    unit_class=Clipper,
    cases=cases,
    counters=("operations",),
    compiled_run="none",
)
'''


def write(folder: Path, name: str, points: Mapping[str, str], files: Mapping[str, str], version: str = "1.2") -> None:
    """Write a distribution. points: group and name of every entry point, "units clipper", with what it stands for."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[refemu.{key.split()[0]}]\n{key.split()[1]} = {value}\n" for key, value in points.items()]
    (info / "entry_points.txt").write_text("".join(lines))


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """What a folder holds is installed in this process."""
    loaded = set(sys.modules)
    sys.path.insert(0, str(folder))
    plugins.refresh()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - loaded:
            if (file := getattr(sys.modules[name], "__file__", None)) and Path(file).is_relative_to(folder):
                del sys.modules[name]
        plugins.refresh()
