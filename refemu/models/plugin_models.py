"""Models that are not refemu's own: of distributions with entry points `refemu.models`, and registered by call."""

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
    return make  # type: ignore[no-any-return]  # `load` looks at what it makes


REGISTRY = plugins.Registry("model", lambda: (*BUILTIN, *catalog.MODELS), _validated)


def register(name: str, make: Callable[[], Model]) -> Callable[[], Model]:
    """Add a model in this process; `models.load` then knows its name.

    Parameters
    ----------
    name : str
        Name.
    make : callable
        Makes the Model; called at each `load`.

    Returns
    -------
    callable
        The same.

    Raises
    ------
    Refused
        A name of refemu's own.
    RefusedType
        No callable.
    """
    return REGISTRY.register(make, name)


def load(name: str) -> Model:
    """The model of a plug-in. Refused: an unknown name; RefusedType: what is made is no Model."""
    model = REGISTRY.find(name)()
    if not isinstance(model, Model):
        raise RefusedType(f"model {name}: its function must make a Model, got {type(model).__name__}")
    return model
