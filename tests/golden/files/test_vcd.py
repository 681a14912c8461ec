"""An independent reader finds the stepped states in the dump."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vcdvcd

from refemu import units
from refemu.golden.files import vcd
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Config
from refemu.units.value_text import values_of
from tests.units.protocol.blocks import FIRST_CONFIGS, blocks, one_case

MOST = 40  #: events of a unit that are read back


def states_of(unit: AnyUnit, config: Config, inputs: dict[str, Any]) -> list[Any]:
    return [state for _, state in zip(range(MOST), unit.trace(config, inputs), strict=False)]


def read(folder: Path, dump: bytes) -> vcdvcd.VCDVCD:
    (folder / "wave.vcd").write_bytes(dump)
    return vcdvcd.VCDVCD(str(folder / "wave.vcd"))


def reference(unit: str, port: Port) -> str:
    """A port's variable in the reader's form."""
    bits = port.bits * port.count
    return f"{unit}.{port.name}" + (f"[{bits - 1}:0]" if bits > 1 else "")


def lanes(word: int, port: Port) -> tuple[int, ...]:
    """Lanes of a vector, lane 0 lowest, without the code under test."""
    codes = [word // (1 << at * port.bits) % (1 << port.bits) for at in range(port.count)]
    half = 1 << port.bits - 1
    return tuple(code - 2 * half if port.signed and code >= half else code for code in codes)


@pytest.mark.parametrize(("unit", "name"), FIRST_CONFIGS)
def test_every_port_of_every_event_reads_back(unit: AnyUnit, name: str, tmp_path: Path) -> None:
    """One vector per port of every unit, after the rising edge if there is a clock."""
    config = Config(**unit.configs[name])
    ports, clocked = unit.ports(config), unit.timing == "event"
    states = states_of(unit, config, one_case(unit, dict(blocks(unit, name)[0].inputs), 0))
    dump, _ = vcd.dump(unit.name, ports, states, clocked)
    waves = read(tmp_path, dump)

    for event, state in enumerate(states):
        time = 2 * event + 1 if clocked else event
        for port in ports.all:
            word = int(waves[reference(unit.name, port)][time], 2)
            assert lanes(word, port) == values_of(getattr(state, port.name)), (event, port.name)
    assert dump.count(b"$var ") == len(set(waves.signals)) == len(waves.signals)


def test_clock_rises_between_inputs_and_registers(tmp_path: Path) -> None:
    """Inputs are set up before the edge, as in RTL."""
    unit = units.find("olive_mac")
    config = Config(**unit.configs[next(iter(unit.configs))])
    ports = unit.ports(config)
    inputs = {port.name: np.array([1, 2, 3], port.dtype) for port in ports.inputs} | {"load": np.array([0, 0, 0])}
    states = states_of(unit, config, inputs)
    waves = read(tmp_path, vcd.dump(unit.name, ports, states, clocked=True)[0])
    a_exp, acc = (reference("olive_mac", port) for port in ports.all if port.name in ("a_exp", "acc"))

    assert [waves["olive_mac.clk"][time] for time in range(6)] == ["0", "1"] * 3
    assert [int(waves[a_exp][time], 2) for time in range(6)] == [1, 1, 2, 2, 3, 3]
    assert [int(waves[acc][time], 2) for time in range(1, 6)] == [
        states[at].acc & (1 << 32) - 1 for at in (0, 0, 1, 1, 2)
    ]


def test_counters_and_names_of_events_read_back(tmp_path: Path) -> None:
    unit = units.find("ovp_decoder")
    config = Config(**unit.configs["int4"])
    states = states_of(unit, config, {"pair": [0x85, 0x88, 0xD5, 0xD5], "bias": [2, 2, 3, 3]})
    dump, table = vcd.dump(unit.name, unit.ports(config), states)
    waves = read(tmp_path, dump)
    names = [line.split()[1] for line in table.decode().splitlines()]

    assert [int(waves["ovp_decoder.pairs[63:0]"][time], 2) for time in range(4)] == [1, 2, 3, 4]
    assert [names[int(waves["ovp_decoder.event[7:0]"][time], 2)] for time in range(4)] == ["decode"] * 4
    assert "ovp_decoder.clk" not in waves.signals


def test_registers_are_vectors_like_the_rtls() -> None:
    unit = units.find("orizuru")
    config = Config(**unit.configs["n8"])
    states = states_of(unit, config, {"x": np.arange(8, dtype=np.uint16)[None]})
    text = vcd.dump(unit.name, unit.ports(config), states)[0].decode()

    declared = {line.split(" ", 4)[4].removesuffix(" $end") for line in text.splitlines() if line.startswith("$var")}
    assert {"x [127:0]", "p [6:0]", "q [6:0]", "p_mask [7:0]", "q_mask [7:0]"} <= declared
    assert not [name for name in declared if name.startswith("x_")]


def test_equal_states_give_equal_bytes() -> None:
    unit = units.find("outlier_decoder")
    ports, states = unit.ports(unit.configs["e2m1"]), list(unit.trace(unit.configs["e2m1"], {"code": [5], "bias": [2]}))

    dump, table = vcd.dump(unit.name, ports, states)
    assert vcd.dump(unit.name, ports, states) == (dump, table)
    assert dump.startswith(
        b"$timescale 1 ns $end\n$scope module outlier_decoder $end\n$var wire 8 ! event [7:0] $end\n"
    )
    assert b"$date" not in dump
    assert dump.endswith(b"#1\n")


def test_identifiers_never_repeat() -> None:
    names = [vcd._identifier(number) for number in range(94 * 94 + 94 + 10)]
    assert len(set(names)) == len(names)
    assert (names[0], names[93], names[94]) == ("!", "~", "!!")
