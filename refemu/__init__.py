"""refemu: a bit-exact reference emulator of number formats and hardware units for LLM inference.

Layers, each importing only those to its left: `arith`, `formats`, `units`, `models`, `golden`, `cli`. `draw` is
on the level of `models`. Each is imported at its first use: after `import refemu`, `refemu.formats.INT4` works.
"""

TYPE_CHECKING = False  # as in typing, whose import takes longer than the rest of this module
if TYPE_CHECKING:
    from types import ModuleType

    from refemu import arith, draw, formats, golden, models, studies, testing, units

__all__ = ["arith", "draw", "formats", "golden", "models", "studies", "testing", "units"]
__version__ = "0.1.0"


def __getattr__(name: str) -> "ModuleType":
    if name not in __all__:
        raise AttributeError(f"module 'refemu' has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"refemu.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
