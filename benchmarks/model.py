"""SmolLM2 prefill and decode under a scheme against the float32 NumPy/BLAS forward."""

from collections.abc import Callable

import numpy as np

from benchmarks.float32_forward import Forward
from benchmarks.pairs import Row, pairs
from refemu import models
from refemu.models import text

NAME, PROMPT, DECODE = "smollm2-135m", 256, 16
#: scheme -> smallest ratios to the rival aimed at (prefill, decode): 1 / the allowed multiple of its time
GOALS = {"fp16": (1 / 1.6, 1 / 0.9), "olive-4": (1 / 1.8, 1 / 1.3)}


def whole_model() -> list[Row]:
    """Prefill of 256 tokens and decode of 16 more, per scheme; 1.0 = as fast as float32 with BLAS."""
    model = models.load(NAME)
    ids = model.tokenizer.encode(text.default())[: PROMPT + DECODE]
    rival = Forward(model, PROMPT + DECODE)
    reference = rival.append(ids)
    rows = []
    for scheme, (prefill_goal, decode_goal) in GOALS.items():
        prepared = models.prepare(model, scheme)

        def check(theirs: np.ndarray, ours: np.ndarray, scheme: str = scheme, prepared: object = prepared) -> bool:
            whole = models.run(model, ids, scheme=prepared).logits  # the prefill's columns are the decode's steps
            agree = np.mean(np.argmax(reference, -1) == np.argmax(whole, -1)) >= (0.9 if scheme == "fp16" else 0.3)
            return (
                bool(agree) and whole[:PROMPT].tobytes() == ours.tobytes()
                if len(ours) == PROMPT
                else whole[PROMPT:].tobytes() == ours.tobytes()
            )

        rows.append(
            pairs(
                "PERF-M1",
                f"{NAME} {scheme} prefill {PROMPT}",
                "float32 NumPy/BLAS",
                lambda: _prefill(rival, ids),
                lambda p=prepared: models.session(p).append(ids[:PROMPT]),
                check,
                prefill_goal,
                count=5,
            )
        )
        rows.append(_decode(prepared, scheme, rival, ids, check, decode_goal))
    return rows


def _prefill(rival: Forward, ids: list[int]) -> np.ndarray:
    rival.reset()
    return rival.append(ids[:PROMPT])


def _decode(
    prepared: object, scheme: str, rival: Forward, ids: list[int], check: Callable[..., bool], goal: float
) -> Row:
    session = models.session(prepared)
    session.append(ids[:PROMPT])
    mark = session.mark()

    def ours() -> np.ndarray:
        session.rewind(mark)
        return np.concatenate([session.append([token]) for token in ids[PROMPT:]])

    def theirs() -> np.ndarray:
        rival.position = PROMPT
        return np.concatenate([rival.append([token]) for token in ids[PROMPT:]])

    return pairs(
        "PERF-M2", f"{NAME} {scheme} decode {DECODE} tokens", "float32 NumPy/BLAS", theirs, ours, check, goal, count=5
    )


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-M1": whole_model}
