"""Faulty devices as hardware teams make them: each is explained, none incorrectly; random words get nothing."""

import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import pytest

from refemu import units
from tests.golden import committed
from tests.golden.explain import collection
from tests.golden.explain.collection import Wrong

PAPERS = ("olive", "kllm", "harmonia", "leankv")
QUICK = ("ovp_decoder-int4", "fp16_mac-fma", "orizuru-n8", "bfp_aligner-paper", "free_page_list-small", "concat-a4")
#: sets whose unit has words, lanes, ports of one size, floats: every structural class is tried on six of them and more
STRUCTURE = (
    *QUICK,
    "score_quantizer-max8",
    "clustering-paper",
    "kv_quantizer-paper",
    "functional-exp",
    "fp2half-paper",
)
NAMED = 0.9  #: least share of devices whose changes are all among the first two explanations


def outcomes(devices: Iterator[Wrong] | Sequence[Wrong]) -> tuple[Counter[str], list[str]]:
    """Number of devices by result, and the devices with a wrong explanation."""
    counts: Counter[str] = Counter()
    leads = []
    for device in devices:
        result = collection.outcome_of(device)
        if result is not None:
            outcome = collection.rated(device, result)
            counts["right" if outcome == "silent" and not device.truth else outcome] += 1
            leads += [str(device)] if outcome == "wrong lead" else []
    return counts, leads


def required(counts: Counter[str], leads: list[str], least: int) -> None:
    assert leads == [] and counts.total() >= least
    assert counts["right"] >= NAMED * counts.total(), counts


@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
def test_structural_changes_are_named_and_random_words_not(name: str) -> None:
    required(
        *outcomes([*islice(collection.structural(name), 0, None, 5), *islice(collection.corrupted(name), 1, 2)]), 2
    )


@pytest.mark.parametrize("name", ["ovp_decoder-int4", "olive_mac-wrap", "concat-a4", "bfp_aligner-paper"])
def test_variants_of_decisions_are_named(name: str) -> None:
    required(*outcomes(collection.decisions(name)), 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("paper", "device", "outcome"),
    [
        ("kllm", "index_product-w4a4: truncation", "right"),  # only the last cases multiply
        ("kllm", "index_product-w4a4: b is the high part, truncation", "right"),
        ("kllm", "functional-exp: truncation", "right"),  # of a function table, with infinity where it overflows
        ("olive", "outlier_decoder-e2m1: no hidden one", "silent"),  # three faults fit its four wrong words by chance
    ],
)
def test_device_made_by_hand_has_its_outcome(paper: str, device: str, outcome: str) -> None:
    module = importlib.import_module(f"tests.golden.explain.devices_{paper}")
    (wrong,) = (each for each in module.devices() if str(each) == device)
    result = collection.outcome_of(wrong)
    assert result is not None and collection.rated(wrong, result) == outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURE)
def test_structural_and_arithmetic_changes_are_named(name: str) -> None:
    required(*outcomes([*collection.structural(name), *collection.arithmetic(name)]), 5)


@pytest.mark.slow
@pytest.mark.parametrize("unit", units.names())
def test_variants_of_every_unit_are_named(unit: str) -> None:
    name = next(name for name in committed.NAMES if name.rpartition("-")[0] == unit)
    counts, leads = outcomes([*collection.decisions(name), *collection.corrupted(name)])
    required(counts, leads, 3)


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_devices_made_by_hand_are_named(paper: str) -> None:
    module = importlib.import_module(f"tests.golden.explain.devices_{paper}")
    counts, leads = outcomes(module.devices())
    assert counts.total() >= 3 * len([name for name in units.names() if units.find(name).paper.startswith(paper)])
    assert leads == [] and counts["right"] >= 0.85 * counts.total(), (counts, leads)
