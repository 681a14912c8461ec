"""Guesses that run the unit."""

from refemu import units
from refemu.golden.explain import reruns
from tests.golden.explain import made


def test_every_variant_is_a_guess() -> None:
    rows = made.golden("ovp_encoder", "int4")
    guesses = list(reruns.decisions(made.table(rows, made.outputs(rows))))
    unit = units.find("ovp_encoder")

    assert [guess.name for guess in guesses[: len(unit.variants)]] == [each.decision for each in unit.variants]
    assert {"fmt": "OVP_INT4[left=high]"} in [guess.parameters for guess in guesses]
    assert {"device": "a negative value is never an outlier"} in [guess.parameters for guess in guesses]


def test_numbers_off_by_one_belong_to_their_decision() -> None:
    rows = made.golden("bit_allocator", "paper", ("paper",))
    guesses = {each.says: each.name for each in reruns.decisions(made.table(rows, made.outputs(rows)))}

    assert guesses["D-harmonia-18: n_local is 65 (here 64)"] == "D-harmonia-18"
    assert guesses["n_initial is 31 (here 32)"] == "parameter"


def test_parameters_without_a_decision_are_guesses_too() -> None:
    rows = made.golden("orizuru", "n8")
    guesses = [each for each in reruns.decisions(made.table(rows, made.outputs(rows))) if each.name == "parameter"]
    assert {"k": "4"} in [guess.parameters for guess in guesses]
