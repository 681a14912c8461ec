"""A server's description of its unit: every parameter, every place, and a digest that changes with them."""

import dataclasses
import json

from refemu import units
from refemu.golden.serve import hello


def test_hello_names_unit_parameters_and_places() -> None:
    said = hello.hello(units.find("orizuru"), "n=6,k=2")

    assert (said["unit"], said["set"], said["timing"]) == ("orizuru", "orizuru-n6-k2", "combinational")
    assert said["parameters"]["n"] == 6 and said["parameters"]["k"] == 2
    assert len(said["parameters"]) > 2  # including those with defaults
    (x,) = [port for port in said["ports"] if port["name"] == "x"]
    assert (x["group"], x["bits"], x["lanes"], x["lsb"]) == ("in", 16, 6, 0)
    assert said["words_in"] == 3


def digest(config: str = "int4", **options: bool) -> str:
    return str(hello.hello(units.find("ovp_decoder"), config, **options)["digest"])


def test_digest_distinguishes_configurations_and_layouts() -> None:
    assert digest() == digest(units.choose("ovp_decoder:normal=int4")[1])
    assert len({digest(), digest("flint4"), digest("int8"), digest(care=True)}) == 4


def test_new_version_has_a_different_digest() -> None:
    newer = dataclasses.replace(units.find("ovp_decoder"), version=99)

    assert hello.hello(newer, "int4")["digest"] != digest()


def test_every_unit_has_a_hello() -> None:
    """It is JSON, with enough words for the ports, which do not overlap."""
    for name in units.names():
        unit = units.find(name)
        for config in unit.configs:
            said = json.loads(json.dumps(hello.hello(unit, config, registers=True, care=True)))
            for groups, words in ((("in",), said["words_in"]), (("out", "st", "care"), said["words_out"])):
                lsb = 0
                for port in (port for port in said["ports"] if port["group"] in groups):
                    assert port["lsb"] == lsb
                    lsb += port["bits"] * port["lanes"]
                assert 0 < lsb <= 32 * words < lsb + 32
