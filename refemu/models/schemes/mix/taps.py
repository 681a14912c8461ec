"""The units that a mix taps: those of the half that each part computes."""

from refemu.models.schemes import registry
from refemu.models.schemes.mix.config import Mix


def tapped(config: Mix) -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order."""
    names: set[str] = set()
    for part in config.parts:
        if hasattr(part.scheme, "tapped_by"):
            half = "attention" if part is config.attention else "linear"
            names.update(registry.named(part.scheme, "tapped_by")(part.scheme, half))
    return tuple(sorted(names))
