"""The backend of a command: the readable forms where the kernels of a scheme would take longer to compile than to read.

Most kernels have readable forms of their own (`arith.jit.tiers`). Those of LeanKV share the memory of a session, so one
backend has to run it from the first token to the last.
"""

from refemu.models.model import Model
from refemu.models.prepared.prepared_cache import count_weights
from refemu.models.schemes.scheme import Scheme

SECONDS = 5.0  #: of the readable forms at most; the kernels of LeanKV compile in 11
LAYER, WEIGHT = 5e-3, 5e-9  #: seconds of the readable forms for a token: in each layer, for each weight


def backend_of(scheme: Scheme, model: Model, tokens: int) -> str:
    """The name of the backend for so many tokens in all; both have the same bits.

    Parameters
    ----------
    scheme : Scheme
        Configuration.
    model : Model
        Decoder.
    tokens : int
        Tokens of all windows.

    Returns
    -------
    str
        "numpy" or "jit".
    """
    if tokens * (LAYER * model.config.blocks + WEIGHT * count_weights(model)) > SECONDS:
        return "jit"
    from refemu.arith.jit.tiers import is_deferred

    kernel = scheme.session_kernel()
    return "numpy" if kernel is not None and is_deferred(kernel) else "jit"
