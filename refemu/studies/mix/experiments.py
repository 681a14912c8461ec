"""Experiments of `refemu study mix` as steps: perplexity and bits of the KV cache, window by window, pair by pair.

A window is a prompt and then decode steps. Only the steps are scored, since attention in pages uses full precision in a
prompt.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.scheme import Prepared, Progress
from refemu.models.scores.perplexity import run_window
from refemu.studies import evaluation
from refemu.studies.evaluation import Score, Setting
from refemu.studies.steps import DECODED, Bench, Step, factors

LINEAR = ("fp16", "olive-4", "kllm-a4", "harmonia-kv4")
ATTENTION = ("fp16", "kllm-a4", "harmonia-kv4", "leankv-k8v4")
PAIRS = tuple(f"{linear}+{attention}" for linear in LINEAR for attention in ATTENTION)
PARTS = ("pairs",)


@dataclass(frozen=True)
class Mixed:
    """A scheme on the windows."""

    score: Score
    kv_bits: float  #: bits of a value in the cache, with scales and the like: mean at the ends of the windows


def steps(setting: Setting, parts: Sequence[str], listed: Sequence[str] = ()) -> list[Step]:
    """The steps of some of PARTS. listed: schemes instead of PAIRS."""
    setting.require_decoder("mix")
    if setting.prefill < 1:
        raise Refused(f"study mix: prefill must be at least 1, got {setting.prefill}")
    names = listed or (PAIRS if "pairs" in parts else ())
    return [step for name in names for step in _windows(setting, name)]


def mixed(setting: Setting, results: Mapping[str, Any], name: str) -> Mixed:
    """A scheme from the results of its steps."""
    windows = [results[_name(name, index)] for index in range(len(setting.windows))]
    score = evaluation.score_of(name, [window["nll"] for window in windows])
    return Mixed(score, evaluation.mean_of([window["kv_bits"] for window in windows]))


def _name(name: str, index: int) -> str:
    return f"{schemes.text(schemes.parse(name))}, decoded window {index}"


def _windows(setting: Setting, name: str) -> list[Step]:
    """A step for every window of a scheme, with the result {"nll", "kv_bits"}."""
    config = schemes.parse(name)
    text = schemes.text(config)
    whole, prompt = (evaluation.token_macs(setting.model, tokens) for tokens in (setting.win, setting.prefill))
    macs = factors(text)[0] * (prompt + DECODED * (whole - prompt))

    def compute(window: np.ndarray) -> Callable[[Bench, Progress], Any]:
        def of_window(bench: Bench, progress: Progress) -> Mapping[str, float]:
            losses, bits = measure(bench.prepared(config, progress), window, setting.prefill)
            return {"nll": evaluation.mean_of(losses.tolist()), "kv_bits": bits}

        return of_window

    return [
        Step(
            _name(name, index),
            {"what": "mix window", "scheme": text, "ids": evaluation.digest(window), "prefill": setting.prefill},
            macs,
            compute(window),
            text,
        )
        for index, window in enumerate(setting.windows)
    ]


def measure(prepared: Prepared, window: np.ndarray, prefill: int) -> tuple[np.ndarray, float]:
    """Negative log-likelihoods of the tokens after a prompt, and bits of a value in the cache at the end."""
    losses, session = run_window(prepared, window, prefill)
    sizes = prepared.model
    return losses, session.storage_bits / (2 * len(session) * sizes.blocks * sizes.kv_heads * sizes.head_dim)
