"""The configuration of a mix: its parts, and their rules."""

from dataclasses import dataclass
from typing import ClassVar

from refemu.arith.checks import Refused, require_int
from refemu.models.schemes import scheme_text
from refemu.models.schemes.mix import rules
from refemu.models.schemes.mix.grammar import MOST, write_layers
from refemu.models.schemes.scheme import Half, Scheme


@dataclass(frozen=True)
class Part:
    """A scheme in a mix."""

    scheme: Scheme
    layers: tuple[int, ...] | None = None  #: blocks of a linear part, ascending; None: all that no other part names

    def __post_init__(self) -> None:
        if self.layers is None:
            return
        blocks = sorted(require_int(block, 0, MOST - 1, "mix", "layer") for block in self.layers)
        if not blocks or len(set(blocks)) < len(blocks):
            raise Refused(f"mix: layers must be blocks, each once, got {tuple(self.layers)}")
        object.__setattr__(self, "layers", tuple(blocks))

    @property
    def text(self) -> str:
        """`NAME@LAYERS:parameter=value,...`."""
        name, colon, parameters = scheme_text.text(self.scheme).partition(":")
        return name + ("" if self.layers is None else f"@{write_layers(self.layers)}") + colon + parameters


@dataclass(frozen=True, repr=False)
class Mix(Scheme):
    """A scheme whose linear layers and attention are those of other schemes."""

    paper: ClassVar[str] = "docs/mixes.md"
    experts: ClassVar[bool] = True
    every_decoder: ClassVar[bool] = True  # parts reject models that they do not compute

    parts: tuple[Part, ...]  #: linear parts, then the attention

    def __post_init__(self) -> None:
        for number, part in enumerate(self.parts, start=1):
            if not part.scheme.halves:
                kind = type(part.scheme).__name__
                raise Refused(f"mix: part {number} must be a scheme that a mix can use, got {kind}")
        rules.check(self.parts, [f"part {number}, {part.text!r}" for number, part in enumerate(self.parts, start=1)])

    @property
    def text(self) -> str:
        """Text of the mix, as `parse` reads it."""
        return "+".join(part.text for part in self.parts)

    def __repr__(self) -> str:
        return f"Mix({self.text!r})"

    @property
    def linear(self) -> tuple[Part, ...]:
        """The linear parts, in order."""
        return self.parts[:-1]

    @property
    def attention(self) -> Part:
        """The last part."""
        return self.parts[-1]

    @property
    def two_phases(self) -> bool:
        """Whether the attention computes a prompt unlike the tokens after it."""
        return self.attention.scheme.two_phases

    @property
    def calibrated_halves(self) -> tuple[Half, ...] | None:
        """Halves of which a part depends on a calibration text; None: not known of a part."""
        halves: list[tuple[Half, Part]] = [("linear", part) for part in self.linear]
        halves.append(("attention", self.attention))
        known = [(half, part.scheme.calibrated_halves) for half, part in halves]
        if any(of_part is None for _, of_part in known):
            return None
        return tuple(dict.fromkeys(half for half, of_part in known if half in (of_part or ())))

    def layers_of(self, part: Part, blocks: int) -> tuple[int, ...]:
        """Blocks whose linear layers `part` computes in a model of `blocks` blocks; Refused: a block beyond them."""
        if part.layers is not None:
            for block in part.layers:
                if block >= blocks:
                    where = f"mix {self.text}: part {self.parts.index(part) + 1}, {part.text!r}"
                    raise Refused(f"{where}: layer must be in [0, {blocks - 1}], got {block}")
            return part.layers
        named = {block for other in self.linear for block in other.layers or ()}
        return tuple(block for block in range(blocks) if block not in named)
