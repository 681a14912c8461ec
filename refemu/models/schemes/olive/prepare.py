"""Preparation under schemes `olive-4` and `olive-8`: weights are encoded, then inputs calibrated [olive §3.4]."""

from typing import TYPE_CHECKING, Any

from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.olive.config import OliveConfig
from refemu.models.schemes.olive.decoder import Olive
from refemu.models.schemes.olive.layers import OliveLayers
from refemu.models.schemes.olive.linear import Weight
from refemu.models.schemes.scheme import Progress

if TYPE_CHECKING:
    from refemu.models.schemes.olive.encoder import OliveEncoder


def prepare(
    config: OliveConfig, model: Model, backend: Backend, calibration: Any, progress: Progress
) -> "Olive | OliveEncoder":
    """Search and encode the weights, then search the scales of the inputs on the calibration tokens.

    calibration: token ids; for an encoder those of one text, or of several.
    """
    kind: Any = Olive
    if isinstance(model.config, EncoderConfig):
        from refemu.models.schemes.olive.encoder import OliveEncoder

        kind = OliveEncoder
    ids = kind.calibration(config, model, calibration) if config.act_bits else []
    store: dict[tuple[str, int], Weight] = {}
    prepared: Olive | OliveEncoder = kind(model, config, backend, progress, store)
    prepared.calibrate(model, ids)
    if config.n_eight_bit:
        prepared = kind(model, config, backend, progress, store, lossiest(prepared, config.n_eight_bit))
        prepared.calibrate(model, ids)
    return prepared


def lossiest(prepared: OliveLayers, count: int) -> list[str]:
    """The layers that `n_eight_bit` raises: the last two at 4 bits, then the largest weight plus input error."""
    errors = [
        (weight.mse + part.input.mse, name)
        for part in prepared.parts()
        if part.input is not None
        for name, weight in zip(part.names, part.weights, strict=True)
        if weight.format.width == 4
    ]
    if count > len(errors):
        raise Refused(f"olive: n_eight_bit must be at most {len(errors)}, the layers at 4 bits, got {count}")
    rest = sorted(errors[:-2], key=lambda error: -error[0])  # stable: a tie goes to the lower index
    return [name for _, name in (*errors[-2:], *rest[: max(count - 2, 0)])]
