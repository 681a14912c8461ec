"""The dump that a foreign reader reads holds the states that were stepped."""

from pathlib import Path

import vcdvcd

from refemu import units
from refemu.golden.files import vcd
from refemu.units.unit import Config


def parsed(folder: Path, unit: str, config: str, **inputs: list[int]) -> tuple[dict[str, list[int]], list[object]]:
    """Variables as the reader has them, one value per event, and the states."""
    found = units.find(unit)
    states = list(found.trace(found.configs[config], inputs))
    dump, table = vcd.dump(unit, found.ports(Config(**found.configs[config])), states)
    (folder / "wave.vcd").write_bytes(dump)
    read = vcdvcd.VCDVCD(str(folder / "wave.vcd"))
    names = [line.split()[1] for line in table.decode().splitlines()]
    assert [names[int(read[f"{unit}.event"][time], 2)] for time in range(len(states))] == [s.event for s in states]
    return {name: [int(read[name][time], 2) for time in range(len(states))] for name in read.signals}, states


def test_every_port_and_counter_reads_back(tmp_path: Path) -> None:
    """Lanes become variables, signed ports two's complement of their width."""
    waves, states = parsed(tmp_path, "ovp_decoder", "int4", pair=[0x85, 0x88, 0xD5, 0xD5], bias=[2, 2, 3, 3])

    assert waves["ovp_decoder.pair"] == [0x85, 0x88, 0xD5, 0xD5]
    assert waves["ovp_decoder.illegal"] == [state.illegal for state in states]
    for lane in range(2):
        assert waves[f"ovp_decoder.base_int_{lane}"] == [state.base_int[lane] & 15 for state in states]
        assert waves[f"ovp_decoder.exponent_{lane}"] == [state.exponent[lane] for state in states]
    assert waves["ovp_decoder.pairs"] == [1, 2, 3, 4]


def test_same_states_same_bytes_and_no_date() -> None:
    unit = units.find("outlier_decoder")
    ports, states = unit.ports(unit.configs["e2m1"]), list(unit.trace(unit.configs["e2m1"], {"code": [5], "bias": [2]}))

    dump, table = vcd.dump(unit.name, ports, states)
    assert vcd.dump(unit.name, ports, states) == (dump, table)
    assert dump.startswith(b"$timescale 1 ns $end\n$scope module outlier_decoder $end\n$var wire 8 ! event $end\n")
    assert b"$date" not in dump
    assert dump.endswith(b"#1\n")


def test_identifiers_never_repeat() -> None:
    found = [vcd._identifier(number) for number in range(94 * 94 + 94 + 10)]
    assert len(set(found)) == len(found)
    assert (found[0], found[93], found[94]) == ("!", "~", "!!")
