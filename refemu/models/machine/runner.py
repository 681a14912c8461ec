"""Run one block of a model under a scheme, and give the inputs and outputs of its parts to the accelerator.

Only the blocks up to that one are prepared: a later block changes nothing before it. A scheme that chooses among all
layers (`n_eight_bit` of OliVe) is prepared for all.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from refemu import models
from refemu.arith.checks import Refused, require_choice, require_int
from refemu.models import schemes, text
from refemu.models.encoder.config import EncoderConfig
from refemu.models.machine.options import options as options_of
from refemu.models.machine.options import require_effect
from refemu.models.machine.report import Call, Report
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.registry import costs as costs_of
from refemu.models.schemes.registry import machine as machine_of
from refemu.models.schemes.scheme import Progress, Scheme

Phase: TypeAlias = Literal["prompt", "decode"]  #: what is run: a whole prompt, or the token after it
PHASES: tuple[Phase, ...] = get_args(Phase)
PARTS = ("linear", "attention", "activation", "activate", "head")  #: methods of a prepared scheme that take a probe
HEAD_LAYER = -1  #: layer number of the head

PLAIN_PARTS = (
    "LayerNorm",
    "learned positions",
    "biases",
)  #: parts that accelerators have in addition to those of Llama


def run(
    model: Model | str,
    scheme: str,
    layer: int = 0,
    tokens: int = 16,
    phase: Phase = "prompt",
    backend: str = "jit",
    progress: Progress | None = None,
    token_ids: Sequence[int] | None = None,
    calibration: Sequence[int] | None = None,
    options: Any = "",
) -> Report:
    """Run every operation of a block at the ports of the scheme's accelerator, and compare with the scheme.

    Parameters
    ----------
    model : Model or str
        Decoder, or a name that `models.load` knows.
    scheme : str
        `name:parameter=value,...` of a scheme with a accelerator.
    layer : int
        Block, from 0.
    tokens : int
        Tokens of the prompt, from the start of the text that refemu ships, or of `token_ids`.
    phase : {"prompt", "decode"}
        The prompt, or the token after it.
    backend : str
        Backend of the scheme; no bit depends on it.
    progress : callable, optional
        Called as progress(what, done, total).
    token_ids : sequence of int, optional
        Token ids instead of the text.
    calibration : sequence of int, optional
        Token ids for schemes that calibrate, as for `refemu.models.prepare`.
    options : str or object
        Options of the machine, `name=value,...`, where the scheme's machine has some.

    Returns
    -------
    Report
        Operations with cycles, utilization and words; `differing` is 0 where accelerator and scheme agree.

    Raises
    ------
    Refused
        A scheme without an accelerator, an encoder, a block that the model lacks, a text beyond the context, or an
        option that changes no number.

    References
    ----------
    [olive §4, Fig. 8; kllm §IV-A, Fig. 6; leankv §6.1]
    """
    config = schemes.find(scheme)
    machine = machine_of(config)
    require_choice(phase, PHASES, "machine", "phase")
    loaded = models.load(model) if isinstance(model, str) else model
    if isinstance(loaded.config, EncoderConfig):
        raise Refused(f"machine: {loaded.name} is an encoder; decoders have machines")
    require_parts(loaded.name, loaded.config)
    require_int(layer, 0, loaded.config.blocks - 1, "machine", "layer")
    require_int(tokens, 1, loaded.config.context - (phase == "decode"), "machine", "tokens")
    ids = prompt(loaded, token_ids, tokens + (phase == "decode"), "machine")
    chosen = options_of(config, options)
    begun = time.perf_counter()
    prepared = models.prepare(shortened(loaded, config, layer), config, backend, calibration, progress)
    seconds = time.perf_counter() - begun
    calls = recorded(prepared, layer, ids, tokens, phase)
    if chosen is not None:
        require_effect(chosen, lambda some: list(_costs(prepared, layer, calls, some)))
    operations, absent = machine(prepared, layer, calls, *(() if chosen is None else (chosen,)))
    spec, system = schemes.text(config), chosen.system if chosen is not None else None
    return Report(loaded.name, spec, layer, phase, tokens, seconds, tuple(operations), tuple(absent), system)


def _costs(prepared: Any, layer: int, calls: Sequence[Call], options: Any) -> Iterator[Any]:
    """Costs of the calls of a block, and the machine's system."""
    yield options.system
    for call in calls:
        yield from costs_of(prepared.config)(prepared, layer, call, options)


def prompt(model: Model, token_ids: Sequence[int] | None, count: int, thing: str) -> Sequence[int]:
    """The ids to run: `token_ids`, or those of the shipped text. thing: start of the error messages.

    Raises Refused for fewer than `count` ids, and for an id outside the vocabulary, with its index.
    """
    if token_ids is None:
        return model.tokenizer.encode(text.default())
    if len(token_ids) < count:
        raise Refused(f"{thing}: token_ids must be at least {count}, got {len(token_ids)}")
    for index, token in enumerate(token_ids):
        if not 0 <= token < model.config.vocab:
            raise Refused(f"{thing}: token_ids must be in [0, {model.config.vocab}), got {token} at index {index}")
    return token_ids


def require_parts(name: str, sizes: Any) -> None:
    """Raise Refused for a decoder with parts that no accelerator and no cost has."""
    more = [part for part in sizes.unlike_llama if part not in PLAIN_PARTS and "without a gate" not in part]
    if more:
        raise Refused(f"machine: no accelerator has {' and '.join(more)}, which {name} needs")


def shortened(model: Model, config: Scheme, layer: int) -> Model:
    """The model without the blocks after `layer`; complete if the scheme's options refer to them."""
    if config.looks_at_blocks:
        return model
    return dataclasses.replace(model, config=dataclasses.replace(model.config, blocks=layer + 1))


def recorded(prepared: Any, layer: int, ids: Sequence[int], tokens: int, phase: Phase) -> list[Call]:
    """Inputs and outputs of the parts of a block for a prompt of the first `tokens` ids, or for the token after it.

    If a scheme computes prompts and steps differently, the calls of the prompt come first in both phases.
    """
    calls: list[Call] = []

    def keep(at: int, call: Call) -> None:
        if at == layer:
            calls.append(dataclasses.replace(call, inputs=_copied(call.inputs), output=_copied(call.output)))

    session = Session(observed(prepared, keep))
    session.append(ids[:tokens], last=True)
    if phase == "decode":
        if not prepared.config.two_phases:  # otherwise the step starts from the state after the prompt
            calls.clear()
        session.append(ids[tokens : tokens + 1], last=True)
    return calls


def observed(prepared: Any, see: Callable[[int, Call], object]) -> Any:
    """The prepared model, with see(layer, call) called after every call of a part; the head is layer -1."""
    watched = copy.copy(prepared)
    watched.observed = True  # caches may then save what an accelerator reads

    def observing(part: str) -> Callable[..., Any]:
        function = getattr(prepared, part)

        def call(*arguments: Any) -> Any:
            output = function(*arguments)
            layer, inputs = (HEAD_LAYER, arguments[:-1]) if part == "head" else (arguments[0], arguments[1:-1])
            see(layer, Call(part, inputs, output))
            return output

        return call

    for part in PARTS:
        setattr(watched, part, observing(part))
    return watched


def _copied(value: Any) -> Any:
    """Copies of arrays, since a cache may modify them in a later pass; a shallow copy of anything else."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return tuple(_copied(part) for part in value)
    return copy.copy(value)
