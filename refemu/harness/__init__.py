"""Adapter for lm-evaluation-harness: its tasks under any scheme of refemu.

lm_eval --model refemu --model_args model=smollm2-135m,scheme=olive-4 --tasks TASK
"""

import contextlib
import sys

NAME = "refemu"  #: name of the model for `lm_eval --model`
ADAPTER = "refemu.harness.adapter:RefemuLM"


def register() -> None:
    """Add the model to the harness.

    The harness has no entry points for models. torch calls this function when it is imported (its entry points
    `torch.backends`); it does nothing in a process without the harness, and never raises.
    """
    if "lm_eval" in sys.modules:
        with contextlib.suppress(Exception):
            register_now()


def register_now() -> None:
    """Add the model to the harness, which must be installed."""
    from importlib import import_module

    import_module("lm_eval.models")  # the harness lists its own models only while its registry is empty
    registry = import_module("lm_eval.api.registry").model_registry
    if NAME not in registry:
        registry.register(NAME, target=ADAPTER)
