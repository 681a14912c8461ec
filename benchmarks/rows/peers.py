"""SmolLM2 compared with transformers and llama.cpp on the same GGUF file, one thread: a prompt, and tokens after it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pairs import Absent, AnyRow, Row, first_call, guarded, row, size, smallest
from benchmarks.rows.model import SEARCH, _seconds
from benchmarks.rows.rivals import optional
from refemu import models
from refemu.models import text
from refemu.models.fetch import store

NAME = "smollm2-135m"
PROMPT, DECODE, ROUNDS = 256, 16, 5  #: tokens; pairs of a row
#: scheme -> least share of positions whose best token is the peer's
SCHEMES = {"fp16": 0.7, "olive-4": 0.1, "harmonia-kv4": 0.3}
#: peer -> least ratio of a decode: llama.cpp has no order of sums, so half of its speed counts as equal
GOALS = {"llama.cpp": 0.5}


@dataclass(frozen=True)
class Peer:
    """Another runtime of the same model. Both calls give logits (tokens, vocabulary)."""

    name: str
    prompt: Callable[[Sequence[int]], np.ndarray]  #: from an empty cache
    step: Callable[[int, int], np.ndarray]  #: a token at a position, after those before it


def rows() -> Sequence[AnyRow]:
    """Each scheme compared with each peer that is installed."""
    file = store.path(NAME)
    if file is None:
        return [Absent(id, f"rows of {NAME}", f"no model: refemu models fetch {NAME}") for id in IDS]
    model = models.load(NAME)
    ids = model.tokenizer.encode(text.default())[: size(PROMPT, 8) + DECODE]
    made: list[AnyRow] = []
    for name, modules, extra, peer in PEERS:
        found, absent = optional(IDS[0], extra, *modules)
        made += [replace(line, id=id, what=f"{NAME} compared with {name}") for line in absent for id in IDS]
        if found:
            made += guarded(" ".join(IDS), name, partial(_compared, model, partial(peer, *found, file), ids))
    return made


def _compared(model: Any, load: Callable[[], Peer], ids: list[int]) -> list[Row]:
    peer = load()
    return [each for scheme in (["fp16"] if smallest() else SCHEMES) for each in _rows(model, scheme, peer, ids)]


def _rows(model: Any, scheme: str, peer: Peer, ids: list[int]) -> list[Row]:
    prompt, steps = ids[:-DECODE], ids[-DECODE:]
    session = models.session(models.prepare(model, f"{scheme}:{SEARCH}" if scheme == "olive-4" else scheme))
    start = session.mark()

    def ours() -> np.ndarray:
        session.rewind(start)
        return session.append(prompt)

    first = first_call(ours)
    after = session.mark()

    def decode() -> np.ndarray:
        session.rewind(after)
        return np.concatenate([session.append([token]) for token in steps])

    def their_decode() -> np.ndarray:
        return np.concatenate([peer.step(token, len(prompt) + place) for place, token in enumerate(steps)])

    first_step, theirs = first_call(decode), [peer.prompt(prompt), their_decode()]
    best = [np.argmax(each, -1) for each in (*theirs, first.result, first_step.result)]
    right = bool(np.mean(np.concatenate(best[:2]) == np.concatenate(best[2:])) >= size(SCHEMES[scheme], 0.0))
    prefills, decodes = [], []
    for _ in range(size(ROUNDS, 1)):
        prefills.append((_seconds(lambda: peer.prompt(prompt)), _seconds(ours)))
        decodes.append((_seconds(their_decode), _seconds(decode)))
    what, goal = f"{NAME} {scheme}", GOALS.get(peer.name.split()[0], 0.0)
    return [
        row(IDS[0], f"{what} prefill {len(prompt)}", peer.name, prefills, first, 0.0, right),
        row(IDS[1], f"{what} decode {DECODE} tokens", peer.name, decodes, first_step, goal, right),
    ]


def _transformers(dtype: str, torch: Any, transformers: Any, gguf: Any, file: Path) -> Peer:
    """The file's weights, dequantized."""
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    load = transformers.AutoModelForCausalLM.from_pretrained
    loaded = load(file.parent, gguf_file=file.name, dtype=getattr(torch, dtype)).eval()
    cache: list[Any] = [None]

    def run(words: Sequence[int]) -> np.ndarray:
        with torch.inference_mode():
            found = loaded(torch.tensor([list(words)]), past_key_values=cache[0], use_cache=True)
        cache[0] = found.past_key_values
        return np.asarray(found.logits[0].float().numpy())

    def prompt(words: Sequence[int]) -> np.ndarray:
        cache[0] = None
        return run(words)

    def step(token: int, position: int) -> np.ndarray:
        if ahead := cache[0].get_seq_length() - position:
            cache[0].crop(-ahead)
        return run([token])

    return Peer(f"transformers, {dtype}", prompt, step)


def _llama(llama_cpp: Any, file: Path) -> Peer:
    """The file's 4-bit weights as they are."""
    context = size(PROMPT, 8) + DECODE
    llama = llama_cpp.Llama(
        str(file), n_ctx=context, n_batch=context, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False
    )

    def run(words: Sequence[int]) -> np.ndarray:
        begin = llama.n_tokens
        llama.eval(list(words))
        return np.array(llama.scores[begin : llama.n_tokens])

    def prompt(words: Sequence[int]) -> np.ndarray:
        llama.reset()
        return run(words)

    def step(token: int, position: int) -> np.ndarray:
        llama.n_tokens = position  # `eval` drops what its cache has beyond
        return run([token])

    return Peer("llama.cpp, Q4_1", prompt, step)


IDS = ("PEER-PREFILL", "PEER-DECODE")
PEERS: tuple[tuple[str, tuple[str, ...], str, Callable[..., Peer]], ...] = (
    ("transformers, float32", ("torch", "transformers", "gguf"), "bench-torch", partial(_transformers, "float32")),
    ("transformers, bfloat16", ("torch", "transformers", "gguf"), "bench-torch", partial(_transformers, "bfloat16")),
    ("llama.cpp", ("llama_cpp",), "bench-llama", _llama),
)
ROWS = {" ".join(IDS): rows}
