"""Tokens into pages and between them: unit, compiled form, and the oracle's pages of bytes."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import UnifiedPage
from refemu.units import variant
from refemu.units.leankv import kv_compressor
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW, DROP, REPLACE, KvCompressor
from refemu.units.leankv.kv_compressor import compiled as kv_compressor_compiled
from refemu.units.leankv.prompt_compressor import compiled as prompt_compressor_compiled
from refemu.units.variant import Variant
from tests.arith.strategies import codes
from tests.oracles.leankv import formats

WRITERS = [pytest.param(kv_compressor, id="unit"), pytest.param(kv_compressor_compiled, id="compiled")]
OPTIONS = {"paper": {"zero": "neg_min", "quant_div": "div"}, "diffkv": {"zero": "min", "quant_div": "recip_mul"}}
HIGH, LOW = UnifiedPage(128, "K8V4"), UnifiedPage(128, "K4V2")


def vectors(count: int, seed: int, features: int = 128) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((count, features)).astype(np.float16) for _ in range(2))  # type: ignore[return-value]


def oracle_page(page: UnifiedPage) -> formats.Page:
    return formats.Page(page.head_size, formats.CONFIGS[page.config.name], page.size, page.tokens)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("preset", OPTIONS)
@pytest.mark.parametrize("name", ["K8V4", "K4V2", "K4V1", "K8V4_G12", "K4V2_G24", "K16V16", "K8V2"])
def test_pages_are_the_oracles_byte_for_byte(writer: Any, preset: str, name: str) -> None:
    """[leankv §5.2, §6.2] D-leankv-11, D-leankv-12, D-leankv-14, D-leankv-15: every token of a page."""
    page = UnifiedPage(128, name)  # type: ignore[arg-type]
    key, value = vectors(page.tokens, 1)
    score, position = np.arange(page.tokens, dtype=np.float32) / 8, np.arange(page.tokens) * 3 - 1
    images, wanted = page.empty(2), oracle_page(page)
    writer.write(page, preset, images, np.ones(page.tokens, int), np.arange(page.tokens), key, value, score, position)
    c = formats.CONFIGS[name]
    for t in range(page.tokens):
        wanted.write(
            t,
            formats.encode(key[t].tolist(), c.k_bits, c.k_groups, **OPTIONS[preset]),
            formats.encode(value[t].tolist(), c.v_bits, c.v_groups, **OPTIONS[preset]),
            float(score[t]),
            int(position[t]),
        )

    assert page.to_bytes(images[1]) == bytes(wanted.data) and not images[0].any()


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("preset", OPTIONS)
def test_requantized_tokens_are_the_oracles(writer: Any, preset: str) -> None:
    """D-leankv-30: from the stored codes, score and position unchanged."""
    key, value = vectors(4, 2)
    images, slots = HIGH.empty(2), [5, 0, 31, 7]
    kv_compressor.write(HIGH, preset, images, [0] * 4, slots, key, value, np.float32([1, 2.5, 0, 4]), [9, 8, 7, 70000])
    targets = (3, 59, 0, 1)
    writer.requantize(HIGH, LOW, preset, images, [(0, slot) for slot in slots], [(1, slot) for slot in targets])
    wanted, options = oracle_page(LOW), OPTIONS[preset]
    for t, target in enumerate(targets):
        codes = [formats.encode(x[t].tolist(), bits, **options) for x, bits in ((key, 8), (value, 4))]
        wanted.write(
            target,
            formats.requantize(codes[0], 4, **options),
            formats.requantize(codes[1], 2, **options),
            [1, 2.5, 0, 4][t],
            [9, 8, 7, 70000][t],
        )

    assert LOW.to_bytes(images[1]) == bytes(wanted.data)


@pytest.mark.parametrize("writer", WRITERS)
def test_prompt_fills_pages_in_order_of_its_classes(writer: Any) -> None:
    """[leankv §4, §6.1]: high slot r in page r // TH; the window last."""
    n, small = 9, [UnifiedPage(64, name, max_tokens=most) for name, most in (("K8V4", 2), ("K4V2", 3))]
    share = np.float32([8, 1, 2, 3, 4, 5, 9, 0, 0]) / np.float32(32)
    made = prompt_compressor_compiled.run(share.view(np.uint32), 2, np.float32([1 / 16, 0.4]).view(np.uint32), tokens=n)
    plan = kv_compressor.plan_prompt(made.cls, made.order.astype(int), np.arange(n, dtype=np.float32))
    key, value = vectors(n, 3, 64)
    images = small[0].empty(6)
    writer.write_prompt(*small, "paper", images, ([4, 0, 2], [5, 1]), plan, key, value)
    stored = [
        [page.position(images[image]).tolist() for image in ids]
        for page, ids in zip(small, ([4, 0, 2], [5, 1]), strict=True)
    ]

    assert plan.high.tolist() == [5, 0, 6, 7, 8] and plan.low.tolist() == [2, 3, 4]
    assert stored[0] == [[5, 0], [6, 7], [8, 0]] and stored[1][0] == [2, 3, 4] and not images[[1, 3]].any()
    assert small[0].score(images[4]).tolist() == [5, 0]


def test_quirks_reproduce_single_defects_of_published_code() -> None:
    """D-leankv-47, D-leankv-48: the rank's score, and positions counted from the end, at most 64. D-leankv-25."""
    order = np.array([2, 0, 1, 3])
    cls, score = np.array([2, 2, 0, 3]), np.float32([10, 11, 12, 13])
    plain, ranked, both = (
        kv_compressor.plan_prompt(cls, order, score, quirks)
        for quirks in ((), ("score_by_rank",), ("score_by_rank", "position_epoch"))
    )

    assert plain.score.tolist() == [10, 11, 12, 13] and ranked.score.tolist() == [11, 12, 10, 13]
    assert plain.high.tolist() == [0, 1, 3] and plain.position.tolist() == both.position.tolist() == [0, 1, 2, 3]
    long = kv_compressor.plan_prompt(np.full(100, 3), np.arange(100), np.zeros(100), ("position_epoch",))
    assert long.position.tolist() == [36] * 36 + list(range(36, 100))
    with pytest.raises(Refused, match="quirks must be one of 'score_by_rank', 'position_epoch', got 'lane_max'"):
        kv_compressor.plan_prompt(cls, order, score, ("lane_max",))


def test_scores_of_a_short_prompt_are_not_ranked() -> None:
    """D-leankv-48: N <= W is not sorted."""
    plan = kv_compressor.plan_prompt(np.full(3, 3), np.arange(3), np.float32([1, 2, 3]), ("score_by_rank",))

    assert plan.score.tolist() == [1, 2, 3]


def events(*ops: tuple[int, int, int]) -> dict[str, Any]:
    key, value = vectors(len(ops), 5, 64)
    columns = dict(zip(("op", "victim", "low_slot"), np.array(ops).T, strict=True))
    return {
        **columns,
        "key": key.view(np.uint16),
        "value": value.view(np.uint16),
        "score": np.arange(len(ops)),
        "position": np.arange(len(ops)),
    }


@pytest.mark.parametrize("run", [kv_compressor.run, kv_compressor_compiled.run], ids=["unit", "compiled"])
def test_sections_and_counters_of_the_block(run: Any) -> None:
    """[leankv Algorithm 1] D-leankv-31: a freed slot is taken at once; an occupied low slot loses its token."""
    config = kv_compressor.UNIT.configs["paper"]
    ops = (APPEND_HIGH, 0, 0), (APPEND_LOW, 0, 0), (REPLACE, 0, 1), (REPLACE, 0, 1), (DROP, 0, 0)
    result = run(**events(*ops), **config)

    assert result.n_high.tolist() == [1, 1, 1, 1, 1] and result.n_low.tolist() == [0, 1, 2, 2, 2]
    assert (result.tokens_written, result.requantized, result.pruned) == (5, 2, 2)
    page = UnifiedPage(64, "K8V4", 384)
    assert [int(page.position(image)[0]) for image in result.high] == [0, 0, 2, 3, 4]
    assert UnifiedPage(64, "K4V2", 384).position(result.low[-1])[:2].tolist() == [1, 2]


def within(limits: tuple[int, int], words: np.ndarray) -> np.ndarray:
    """Codes folded into the limits of a port; 0 is the least of them."""
    return limits[0] + words % (limits[1] - limits[0] + 1)


@settings(deadline=None, max_examples=30)
@given(data=st.data(), preset=st.sampled_from(["paper", "diffkv"]), devices=st.integers(1, 2))
def test_compiled_form_equals_unit_over_devices(data: st.DataObject, preset: str, devices: int) -> None:
    config = kv_compressor.UNIT.configs[preset]
    drawn = {
        port.name: codes((devices, 6, *port.shape), (port.limits[1] - port.limits[0]).bit_length()).map(
            partial(within, port.limits)
        )
        for port in kv_compressor.UNIT.ports(config).inputs
    }
    raw = data.draw(st.fixed_dictionaries(drawn))
    assert kv_compressor.UNIT.legal is not None
    legal = [
        kv_compressor.UNIT.legal(config, {name: array[device] for name, array in raw.items()})
        for device in range(devices)
    ]
    inputs = {name: np.stack([device[name] for device in legal]) for name in legal[0]}

    assert kv_compressor.run(**inputs, **config).equals(kv_compressor_compiled.run(**inputs, **config))


def test_sections_of_several_pages_are_the_oracles() -> None:
    """D-leankv-61: slot r is slot r % N of page r // N; all images, byte for byte, of unit and compiled form."""
    config = kv_compressor.UNIT.configs["pages"]
    high, low = KvCompressor(**config).pages
    for kind in ("paper", "edge"):
        for block in kv_compressor.UNIT.cases(config, kind, 0):  # type: ignore[arg-type]
            result = kv_compressor.run(**block.inputs, **config)
            assert result.equals(kv_compressor_compiled.run(**block.inputs, **config))
            pages = [[oracle_page(page) for _ in range(2)] for page in (high, low)]
            sections: list[list[Any]] = [[], []]
            for row in range(block.inputs["op"].shape[1]):
                names = ("op", "victim", "low_slot", "key", "value", "score", "position")
                op, victim, low_slot, key, value, score, position = (block.inputs[name][0, row] for name in names)
                new = [fp16_list(key), fp16_list(value), np.uint32(score).view(np.float32), int(position)]
                if op == REPLACE:
                    sections[1][low_slot : low_slot + 1] = [lowered(sections[0][victim])]
                if op == APPEND_LOW:
                    sections[1].append(coded(new, low))
                else:
                    slot = len(sections[0]) if op == APPEND_HIGH else victim
                    sections[0][slot : slot + 1] = [coded(new, high)]
                for section, page in enumerate((high, low)):
                    for slot, token in enumerate(sections[section]):
                        pages[section][slot // page.tokens].write(slot % page.tokens, *token)
                    held = b"".join(bytes(page.data) for page in pages[section])
                    assert (result.high, result.low)[section][0, row].astype("<u2").tobytes() == held


def fp16_list(words: np.ndarray) -> list[float]:
    return words.astype(np.uint16).view(np.float16).tolist()


def coded(token: list[Any], page: UnifiedPage) -> list[Any]:
    """Key and value as codes of the page, score, position."""
    c = formats.CONFIGS[page.config.name]
    bits = (c.k_bits, c.v_bits)
    vectors = [formats.encode(x, b, **OPTIONS["paper"]) for x, b in zip(token[:2], bits, strict=True)]
    return [*vectors, float(token[2]), token[3]]


def lowered(token: list[Any]) -> list[Any]:
    """A stored K8V4 token as K4V2."""
    return [formats.requantize(x, b, **OPTIONS["paper"]) for x, b in zip(token[:2], (4, 2), strict=True)] + token[2:]


def test_errors_of_full_sections_name_all_pages() -> None:
    with pytest.raises(Refused, match="slot 4, 2 pages hold 4 K8V4 tokens"):
        kv_compressor.run(**events(*[(APPEND_HIGH, 0, 0)] * 5), **kv_compressor.UNIT.configs["pages"])


class RoundThePages(KvCompressor):
    """Neighbouring slots of a section are in neighbouring pages."""

    def place(self, section: int, slot: int) -> tuple[int, int]:
        return slot % self.counts[section], slot // self.counts[section]


def test_slots_round_robin_over_pages_are_detected() -> None:
    """D-leankv-61: in the registers; no output shows it."""
    config = kv_compressor.UNIT.configs["pages"]
    round_the_pages = Variant("D-leankv-61", "slots of a section go round its pages", unit_class=RoundThePages)
    wrong = variant.device(kv_compressor.UNIT, config, [round_the_pages])
    assert wrong is not None
    blocks = [block for kind in ("paper", "edge") for block in kv_compressor.UNIT.cases(config, kind, 0)]  # type: ignore[arg-type]
    assert any(
        (wrong.evaluate(block.inputs).high != kv_compressor.UNIT.evaluate(config, block.inputs).high).any()
        for block in blocks
    )
    assert all(
        np.array_equal(getattr(wrong.evaluate(block.inputs), port.name), getattr(right, port.name))
        for block in blocks
        for right in [kv_compressor.UNIT.evaluate(config, block.inputs)]
        for port in kv_compressor.UNIT.ports(config).outputs
    )


def test_events_of_a_replacement() -> None:
    """[leankv §6.1]: first the move, then the write."""
    device = KvCompressor()
    states = list(device.steps(**events((APPEND_HIGH, 0, 0), (REPLACE, 0, 0))))

    assert [s.event for s in states] == ["write", "requantize", "write"]
    assert states[1].high == states[0].high and states[1].low != states[0].low and states[2].low == states[1].low


BAD = [
    pytest.param([(DROP, 0, 0)], "victim must be below the 0 stored high tokens, got 0", id="victim"),
    pytest.param(
        [(APPEND_HIGH, 0, 0), (REPLACE, 0, 1)], "low_slot must be at most the 0 stored low tokens, got 1", id="hole"
    ),
    pytest.param([(APPEND_HIGH, 0, 0)] * 3, "slot 2, page holds 2 K8V4 tokens", id="full high"),
    pytest.param([(APPEND_LOW, 0, 0)] * 5, "slot 4, page holds 4 K4V2 tokens", id="full low"),
]


@pytest.mark.parametrize("run", [kv_compressor.run, kv_compressor_compiled.run], ids=["unit", "compiled"])
@pytest.mark.parametrize(("ops", "message"), BAD)
def test_kv_compressor_rejects_invalid_inputs(run: Any, ops: list[tuple[int, int, int]], message: str) -> None:
    with pytest.raises(Refused, match=message):
        run(**events(*ops), **kv_compressor.UNIT.configs["paper"])


@pytest.mark.parametrize("run", [kv_compressor.run, kv_compressor_compiled.run], ids=["unit", "compiled"])
def test_kv_compressor_rejects_non_finite_values_and_scalars(run: Any) -> None:
    """D-leankv-9."""
    inputs = events((APPEND_HIGH, 0, 0))
    inputs["value"] = np.full((1, 64), 0x7C00)
    with pytest.raises(Refused, match="key and value must be finite fp16, got 0x7c00"):
        run(**inputs, **kv_compressor.UNIT.configs["paper"])
    with pytest.raises(RefusedType, match="at least one port must have an axis"):
        run(0, 0, 0, np.zeros(64, int), np.zeros(64, int), 0, 0, **kv_compressor.UNIT.configs["paper"])
