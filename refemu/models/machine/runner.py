"""Runs one block of a model under a scheme, and hands what went in and out of its parts to the scheme's machine.

Only the blocks up to the one looked at are prepared: a later block changes nothing before it. A scheme that chooses
among all layers (`n_eight_bit` of OliVe) is prepared whole.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from refemu import models
from refemu.arith.checks import Refused, require_choice, require_int
from refemu.models import schemes, text
from refemu.models.encoder.config import EncoderConfig
from refemu.models.machine.report import Call, Report
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.registry import machine as machine_of
from refemu.models.schemes.scheme import Progress, Scheme

Phase: TypeAlias = Literal["prompt", "decode"]  #: what is looked at: a whole prompt, or the token behind one
PHASES: tuple[Phase, ...] = get_args(Phase)
PARTS = ("linear", "attention", "activation", "activate", "head")  #: methods of a prepared scheme that take a watch
HEAD_LAYER = -1  #: number of the layer that the head stands for

PLAIN_PARTS = ("LayerNorm", "learned positions", "biases")  #: beside those of Llama, parts that machines have


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
) -> Report:
    """Run every operation of a block through the ports of the scheme's machine, and compare with the scheme.

    Parameters
    ----------
    model : Model or str
        Decoder, or a name that `models.load` knows.
    scheme : str
        `name:parameter=value,...` of a scheme with a machine.
    layer : int
        Block, from 0.
    tokens : int
        Tokens of the prompt, from the start of the text that refemu ships, or of `token_ids`.
    phase : {"prompt", "decode"}
        Look at the prompt, or at the token behind it.
    backend : str
        Backend of the scheme; no bit depends on it.
    progress : callable, optional
        Called as progress(what, done, total).
    token_ids : sequence of int, optional
        Token ids instead of the text.
    calibration : sequence of int, optional
        Token ids for schemes that calibrate, as `refemu.models.prepare` takes them.

    Returns
    -------
    Report
        Operations with cycles, use and words; `differing` is 0 where machine and scheme agree.

    Raises
    ------
    Refused
        The scheme has no machine, the model is an encoder or has no such block, or the context is too short.

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
    begun = time.perf_counter()
    prepared = models.prepare(shortened(loaded, config, layer), config, backend, calibration, progress)
    seconds = time.perf_counter() - begun
    operations, absent = machine(prepared, layer, recorded(prepared, layer, ids, tokens, phase))
    spec = schemes.text(config)
    return Report(loaded.name, spec, layer, phase, tokens, seconds, tuple(operations), tuple(absent))


def prompt(model: Model, token_ids: Sequence[int] | None, count: int, thing: str) -> Sequence[int]:
    """The ids to run: `token_ids`, or those of the text that refemu ships. thing: what refusals start with.

    Refuses fewer than `count` ids, and with its index an id outside the vocabulary.
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
    """Refuse a decoder with parts of a block that no machine and no cost has."""
    more = [part for part in sizes.unlike_llama if part not in PLAIN_PARTS and "without a gate" not in part]
    if more:
        raise Refused(f"machine: no machine has {', '.join(more)}, as {name} needs")


def shortened(model: Model, config: Scheme, layer: int) -> Model:
    """The model without the blocks behind `layer`; whole where the scheme's options speak of these."""
    if config.looks_at_blocks:
        return model
    return dataclasses.replace(model, config=dataclasses.replace(model.config, blocks=layer + 1))


def recorded(prepared: Any, layer: int, ids: Sequence[int], tokens: int, phase: Phase) -> list[Call]:
    """What the parts of a block took and gave for a prompt of the first `tokens` ids, or for the token behind it.

    Of a scheme whose steps are not computed like its prompts, the calls of the prompt come first in both phases.
    """
    calls: list[Call] = []

    def keep(at: int, call: Call) -> None:
        if at == layer:
            calls.append(dataclasses.replace(call, inputs=_copied(call.inputs), output=_copied(call.output)))

    session = Session(observed(prepared, keep))
    session.append(ids[:tokens], last=True)
    if phase == "decode":
        if not prepared.config.two_phases:  # else the step begins with what the prompt left
            calls.clear()
        session.append(ids[tokens : tokens + 1], last=True)
    return calls


def observed(prepared: Any, see: Callable[[int, Call], object]) -> Any:
    """The prepared model, which calls see(layer, call) behind every call of a part; the head is layer -1."""
    watched = copy.copy(prepared)
    watched.observed = True  # caches may then keep what a machine looks at

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
    """Arrays as they are now, and a shallow copy of anything else: a cache may take other arrays in a later pass."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return tuple(_copied(part) for part in value)
    return copy.copy(value)
