"""Devices and events as tables, for every unit; drawings where a device has one."""

from xml.etree import ElementTree

import numpy as np
import pytest

from refemu import units
from refemu.units.events import Events, cell, table
from refemu.units.harmonia.bfp_pe_array import BfpPeArray
from refemu.units.kllm.orizuru import Orizuru
from refemu.units.olive.olive_mac import OliveMac
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.ports import Port


def parsed(text: str) -> list[list[str]]:
    tree = ElementTree.fromstring(f"<div>{text}</div>")
    return [["".join(part.itertext()) for part in row] for row in tree.iter("tr")]


@pytest.mark.parametrize("name", units.names())
def test_every_device_shows_its_ports(name: str) -> None:
    unit = units.find(name)
    config = next(iter(unit.configs.values()))
    device = unit.unit_class(**config)
    head, values = parsed(device._repr_html_())

    assert ["event", *(port.name for port in device.ports.all)] == head[: 1 + len(device.ports.all)]
    assert len(head) == len(values)


def test_state_after_step_is_what_is_shown() -> None:
    mac = OliveMac()
    mac.step(load=0, acc_in=0, a_exp=4, a_int=3, b_exp=0, b_int=5)
    head, values = parsed(mac._repr_html_())

    assert dict(zip(head, values, strict=True))["acc"] == "240"


def test_trees_and_arrays_are_drawn() -> None:
    """[kllm Fig. 7], [harmonia Fig. 14a]"""
    tree = Orizuru(8, 2)
    for _ in tree.steps(np.arange(8, dtype=np.float16)):
        pass

    for device, config in ((tree, {"n": 8, "k": 2}), (BfpPeArray(2), {"groups": 2})):
        unit = units.find(device.name)
        drawn = ElementTree.fromstring(f"<div>{device._repr_html_()}</div>").find("{http://www.w3.org/2000/svg}svg")
        assert drawn is not None and device._repr_html_().endswith(unit.draw(config, device.state))
        assert unit.draw(config, device.state) in device.state._repr_html_()


def test_ambiguous_drawing_is_omitted() -> None:
    """A pair of OVP_INT4 and one of OVP_FLINT4 have the same widths; the device knows which it is."""
    device = OvpDecoder()
    device.step(pair=0x85, bias=2)

    assert "<svg" in device._repr_html_()
    assert "<svg" not in device.state._repr_html_() and "<table" in device.state._repr_html_()


def test_state_without_configuration_is_shown_as_text() -> None:
    tree = Orizuru(12, 2)

    assert tree.state._repr_html_() == f"<pre>{tree.state}</pre>"


def test_wide_ports_end_in_an_ellipsis() -> None:
    head, values = parsed(BfpPeArray(2)._repr_html_())

    assert dict(zip(head, values, strict=True))["a_mag"] == " ".join(["0"] * 32) + " …"


@pytest.mark.parametrize(
    ("port", "value", "wanted"),
    [
        (Port("x", 4, signed=True), -3, "-3"),
        (Port("x", 4, 2), (3, 12), "3 12"),
        (Port("x", 16, encoding="f16"), 0x3C0, "03c0"),
        (Port("x", 5, 2, encoding="code"), (-1, 2), "1f 02"),
    ],
)
def test_cell(port: Port, value: object, wanted: str) -> None:
    assert wanted == cell(port, value)


def test_events_are_one_line_each() -> None:
    decoder = OvpDecoder()
    events = Events(decoder.ports, list(decoder.steps([0x85, 0xD5], 2)))
    head, rows = table(decoder.ports, events.states)

    assert head == ["#", "event", *(port.name for port in decoder.ports.all), "pairs", "outliers", "illegal_pairs"]
    assert rows == [
        [0, "decode", "85", "2", "4 0", "3 0", "0", 1, 1, 0],
        [1, "decode", "d5", "2", "0 0", "5 -3", "0", 2, 1, 0],
    ]
    assert [head, *([str(item) for item in row] for row in rows)] == parsed(events._repr_html_())
    assert repr(events).splitlines()[1].split()[:4] == ["0", "decode", "85", "2"]
