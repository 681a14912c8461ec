"""Every output of a unit on a machine is compared with the scheme's, or the report names it as not compared."""

from functools import cache
from typing import Any

import pytest

from refemu import models, units
from refemu.models import schemes, text
from refemu.models.machine import runner
from refemu.models.schemes import registry
from refemu.units.unit import Config
from tests.models.machine import wrong
from tests.models.schemes.leankv.machine.small import SMALL

pytestmark = pytest.mark.long

OLIVE = ("ovp_encoder", "olive_requant")
KLLM = ("orizuru_passes", "clustering", "index_norm", "score_quantizer", "index_function", "index_product")
HARMONIA = ("k_offset", "v_grouper", "bit_allocator", "harmonia_core")
LAYER = 2
LEANKV = ("significance", "prompt_compressor", "kv_quantizer", "kv_compressor", "page_manager")


@cache
def observed(scheme: str, tokens: int) -> tuple[Any, Any, Any]:
    """What `machine.run` has before it calls the machine of a scheme."""
    config, model = schemes.find(scheme), models.load("tiny")
    prepared = models.prepare(model, config)
    ids = model.tokenizer.encode(text.default())
    return registry.machine(config), prepared, runner.recorded(prepared, LAYER, ids, tokens, "prompt")


def require(monkeypatch: pytest.MonkeyPatch, scheme: str, tokens: int, unit: str, port: str) -> None:
    """A wrong output shows in the operations that compare it, and in no others of the unit."""
    machine, prepared, calls = observed(scheme, tokens)
    wrong.everywhere(monkeypatch, unit, port)
    operations, _ = machine(prepared, LAYER, calls)

    used = [operation for operation in operations if operation.unit == unit]
    for operation in used:
        ports = units.find(unit).ports(Config(**operation.parameters)).outputs
        compared = port in {each.name for each in ports} - set(operation.unchecked)
        assert (operation.differing > 0) == compared, operation.name
    assert used


@pytest.mark.parametrize(("unit", "port"), wrong.outputs(*OLIVE))
def test_olive(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require(monkeypatch, "olive-4", 4, unit, port)


@pytest.mark.parametrize(("unit", "port"), wrong.outputs(*KLLM))
def test_kllm(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require(monkeypatch, "kllm-a4", 1, unit, port)


@pytest.mark.parametrize(("unit", "port"), wrong.outputs(*HARMONIA))
def test_harmonia(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require(monkeypatch, "harmonia-kv4:n_initial=4,n_local=5", 72, unit, port)


@pytest.mark.parametrize(("unit", "port"), wrong.outputs(*LEANKV))
def test_leankv(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require(monkeypatch, SMALL, 24, unit, port)
