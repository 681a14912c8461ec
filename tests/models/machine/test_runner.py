"""The runner: what it prepares, records and rejects."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import machine, schemes, text
from refemu.models.machine import runner
from refemu.models.machine.runner import Phase

SCHEMES = ["olive-4", "olive-8", "kllm-a4", "kllm-a3", "harmonia-kv4", "harmonia-kv8"]


def arrays(output: Any) -> list[bytes]:
    """The bytes of one array, or of several."""
    return [array.tobytes() for array in ([output] if isinstance(output, np.ndarray) else output)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_later_blocks_change_nothing(scheme: str) -> None:
    """The tensors of block 0 are those of the whole model under the scheme."""
    model, config = models.load("tiny"), schemes.find(scheme)
    ids = model.tokenizer.encode(text.default())
    whole, part = (models.prepare(which, config) for which in (model, runner.shortened(model, config, 0)))

    assert part.model.blocks == 1 < whole.model.blocks
    both = [runner.recorded(prepared, 0, ids, 9, "prompt") for prepared in (whole, part)]
    assert [call.part for call in both[0]] == [call.part for call in both[1]]
    for left, right in zip(*both, strict=True):
        assert arrays(left.output) == arrays(right.output)


@pytest.mark.parametrize("spec", ["olive-4:n_eight_bit=2", "olive-4:eight_bit=blk.1.down"])
def test_options_that_name_layers_keep_the_whole_model(spec: str) -> None:
    model = models.load("tiny")

    assert runner.shortened(model, schemes.find(spec), 0) is model


@pytest.mark.parametrize(("phase", "rows"), [("prompt", 5), ("decode", 1)])
def test_only_the_phase_is_recorded(phase: Phase, rows: int) -> None:
    model = models.load("tiny")
    ids = model.tokenizer.encode(text.default())

    calls = runner.recorded(models.prepare(model, "olive-4"), 1, ids, 5, phase)

    assert [call.part for call in calls] == ["linear", "attention", "linear", "linear", "activation", "linear"]
    assert {len(call.inputs[-1]) for call in calls if call.part == "linear"} == {rows}


def test_step_of_two_phase_scheme_starts_with_prompt() -> None:
    model = models.load("tiny")
    ids = model.tokenizer.encode(text.default())

    calls = runner.recorded(models.prepare(model, "leankv"), 1, ids, 5, "decode")

    caches = [call.inputs for call in calls if call.part == "attention"]
    assert [len(q) for q, _ in caches] == [5, 1] and [len(cache.key) for _, cache in caches] == [5, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param({"scheme": "fp16"}, "scheme fp16 has no accelerator; schemes with one: olive-4", id="scheme"),
        pytest.param({"layer": 99}, "layer must be", id="layer"),
        pytest.param({"tokens": 0}, "tokens must be", id="tokens"),
        pytest.param({"tokens": 1 << 20}, "tokens must be", id="context"),
        pytest.param({"phase": "prefill"}, "phase", id="phase"),
        pytest.param({"model": "tiny-encoder"}, "is an encoder", id="encoder"),
        pytest.param({"scheme": "kllm-a4:preset=exact"}, "paper's datapath", id="preset"),
        pytest.param({"scheme": "kllm-a4:quantizer=rtn"}, "got quantizer=rtn", id="integers"),
    ],
)
def test_invalid_requests_are_rejected(words: dict[str, object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        machine.run(**{"model": "tiny", "scheme": "olive-4", **words})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "part"), [("tiny-mistral", "rotary scaling and sliding windows"), ("tiny-qwen3", "norms of q and k")]
)
def test_parts_without_accelerator_are_named_in_the_error(name: str, part: str) -> None:
    """A cost would leave them out without a word."""
    with pytest.raises(Refused, match=f"machine: no accelerator has .*{part}.*, which {name} needs"):
        machine.run(name, "olive-4", layer=0, tokens=4)
    with pytest.raises(Refused, match=f"no accelerator has .*{part}"):
        models.run(name, [1, 2], "fp16", costs=True)
