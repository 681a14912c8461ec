"""Every unit: its compiled form follows from its text, or why it does not."""

import re

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.units import compiled
from refemu.units.compiled import form
from tests.units.compiled.test_compiled import MADE

FASTER = "another algorithm: "  #: begins why a compiled form is written by hand though more could be lifted
IN_PLACE = "memories in place", "events that write memories in place"
#: units with a hand-written compiled form: the reason, then the error after its line
WRITTEN = {
    "bfp_converter": ("banks of registers that an event changes element by element", "list(bank.emax)"),
    "bfp_pe": (FASTER + "exact sums of whole groups, then the kernel of an accumulator", "EVENTS"),
    "bfp_pe_array": (FASTER + "every element sums its groups in order, without cycles", "inputs"),
    "bfp_pe_array_clocked": (FASTER + "every edge by one kernel for all elements", "self.idle(*inputs)"),
    "fdgf": (
        FASTER + "nested counters, where the text has lists of passes and fractions",
        "_shown(IDLE)",
    ),
    "fp16_mac": ("exact sums of more than 64 bits where flags are asked for", "words"),
    "free_page_list": IN_PLACE,
    "functional": (FASTER + "look-ups of whole vectors", "inputs"),
    "generation_compressor": (FASTER + "many heads at once", "a / b"),
    "harmonia_core": (FASTER + "each step once for all products, by whole matrices", "a comprehension of two loops"),
    "harmonia_core_clocked": (FASTER + "whole products, then looked up by clock", "a comprehension of two loops"),
    "index_counter": (FASTER + "one pass over the positions", "map(mul, valid, amount)"),
    "index_function": (FASTER + "one look-up for all vectors", "inputs"),
    "index_matmul": (FASTER + "whole matrices", "self.column"),
    "index_norm": (FASTER + "the sums of all vectors at once", "inputs"),
    "k_offset": (FASTER + "whole matrices of a format", "self._peaks(row)"),
    "kllm_chip": (FASTER + "every edge of every lane in one kernel", "self.events"),
    "kv_compressor": (FASTER + "tensors of a format", "np.array(words, np.uint16)"),
    "kv_quantizer": (FASTER + "the compiled codes of the format", "dict.fromkeys"),
    "layer_step": (FASTER + "heads and requests at once", "copy.deepcopy(self)"),
    "mmaovp": (FASTER + "every pair of a tile is decoded once", "(0,) * len(c)"),
    "mmaovp_clocked": (FASTER + "operations of the array unit, spread over edges", "(0,) * len(c)"),
    "olive_edp": ("exact sums of more than 64 bits", "self.decoders"),
    "olive_edp_clocked": (FASTER + "operations of the event unit, spread over edges", "self.decoders"),
    "olive_requant": (FASTER + "one loop, 2.5 times as fast as lists of two lanes", "use of a list of tuples"),
    "olive_systolic": (FASTER + "sums over K, without cycles", "Dict has no compiled form: {}"),
    "olive_systolic_clocked": (FASTER + "pairs decoded beforehand", "decoder._open"),
    "orizuru": (FASTER + "two heaps of winners", "int | np.integer"),
    "orizuru_clocked": (FASTER + "two heaps of winners", "int | np.integer"),
    "orizuru_passes": (FASTER + "two heaps of winners", "self._counts"),
    "page_manager": IN_PLACE,
    "page_reader": (FASTER + "all tokens of all rows by one gather", "np.array(images, np.uint16)"),
    "page_table": IN_PLACE,
    "paged_attention": (FASTER + "all heads of a layer", "pages.chunk(arithmetic)"),
    "pe_lane": (FASTER + "counts and sums of a whole lane in one kernel", "before.address::self.entries"),
    "prefix_sum": (FASTER + "one running sum", "must have as many values"),
    "prompt_compressor": (FASTER + "many prompts at once", "(0,) * self.tokens"),
    "score_quantizer": (FASTER + "rows of any length at once", "register_words(scores, self.wide)"),
    "significance": (FASTER + "whole prompts at once", "dict.fromkeys(self.counters, 0)"),
    "streaming_significance": (FASTER + "whole prompts at once", "dict.fromkeys(self.counters, 0)"),
    "v_grouper": (FASTER + "all conversions of a format at once", "np.asarray(v)"),
    "weighted_sum": (FASTER + "dot products of many sums at once", "fp16.canonical(value)"),
}


def test_every_unit_is_here() -> None:
    assert sorted([*MADE, *WRITTEN]) == sorted(units.names())


@pytest.mark.parametrize("name", WRITTEN)
def test_text_that_has_no_compiled_form_is_named(name: str) -> None:
    unit, text = units.find(name), re.escape(WRITTEN[name][1])
    devices = [unit.unit_class(**config) for config in unit.configs.values()]
    if name == "prefix_sum":  # the text is lifted, and its values have no bounds
        assert all(re.search(text, compiled.refusal(device)) for device in devices)
        return
    with pytest.raises(Refused, match=text) as refused:
        form.Form(devices[0])

    assert re.search(r"\.py:\d+: ", str(refused.value))
