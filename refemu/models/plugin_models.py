"""Models of plug-ins (entry points `refemu.models`) and models registered by `register`."""

from collections.abc import Callable
from typing import Any

from refemu import plugins
from refemu.arith.checks import RefusedType
from refemu.models.fetch import catalog
from refemu.models.model import Model

BUILTIN = ("tiny", "tiny-encoder", "tiny-gpt2", "tiny-opt")


def _validated(make: Any, name: str, origin: plugins.Origin) -> Callable[[], Model]:
    if not callable(make):
        raise RefusedType(f"model {name}: a function that makes a Model is needed, got {type(make).__name__}")
    return make  # type: ignore[no-any-return]  # `load` checks its result


REGISTRY = plugins.Registry("model", lambda: (*BUILTIN, *catalog.MODELS), _validated)


def register(name: str, make: Callable[[], Model]) -> Callable[[], Model]:
    """Register a model in this process, so that `models.load` finds its name.

    Parameters
    ----------
    name : str
        Name.
    make : callable
        Returns the Model; called at each `load`.

    Returns
    -------
    callable
        `make`.

    Raises
    ------
    Refused
        A name of one of refemu's own models.
    RefusedType
        `make` is not callable.
    """
    return REGISTRY.register(make, name)


def load(name: str) -> Model:
    """The model of a plug-in. Refused: an unknown name; RefusedType: its function does not make a Model."""
    model = REGISTRY.find(name)()
    if not isinstance(model, Model):
        raise RefusedType(f"model {name}: its function must make a Model, got {type(model).__name__}")
    return model
