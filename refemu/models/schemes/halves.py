"""The two halves of a decoder that the parts of a mix compute."""

from typing import Literal, TypeAlias

Half: TypeAlias = Literal["linear", "attention"]  #: "linear": norms, linear layers and activations of blocks
Scope: TypeAlias = Literal["linear", "attention", "outer"]  #: "outer": embedding, residual sums, last norm, head
