"""Other answers to the decisions of kllm_chip."""

from refemu.units.alternative import Alternative

ALTERNATIVES: tuple[Alternative, ...] = ()
UNOBSERVABLE = {
    "D-kllm-31": "Lanes share out whole outputs, so the mapping changes no bit of y; cycles are in the counters only.",
}
