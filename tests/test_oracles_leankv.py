"""The oracles of LeanKV against worked examples, and against each other where two ways lead to one number."""

import math
from fractions import Fraction

import pytest

from tests.oracles import fp16, prng
from tests.oracles.fp16 import f32
from tests.oracles.leankv import attention, formats, memory, units
from tests.oracles.leankv.formats import CONFIGS
from tests.oracles.leankv.units import HIGH, LOW, PRUNED, WINDOW, Decision

DIFFKV = {"zero": "min", "quant_div": "recip_mul"}


def bells(seed: int, count: int) -> list[float]:
    """Bell-shaped FP16 values."""
    return [fp16.to_float(fp16.from_float(prng.bell(w) * 2.0**-14)) for w in prng.words(seed, 0, count)]


# Format.


@pytest.mark.parametrize(("options", "zero"), [({}, 0x3E00), (DIFFKV, 0xBE00)])
def test_worked_group(options: dict[str, str], zero: int) -> None:
    group = formats.encode_group([-1.5, 0, 0.5, 1], 2, **options)

    assert (group.code, group.scale, group.zero, group.status) == ([0, 2, 2, 3], 0x3AAB, zero, 0)
    assert group.s32 == f32(5 / 6)
    assert formats.decode_group(group, options.get("zero", "neg_min")) == [
        -1.5,
        0.1669921875,
        0.1669921875,
        1.00048828125,
    ]
    assert formats.words(group.code + [0] * 4, 2) == [0x00E8]


@pytest.mark.parametrize("bits", [8, 4, 2, 1])
@pytest.mark.parametrize("options", [{}, DIFFKV, {"quantize_with": "stored"}])
def test_extremes_and_error_of_a_group(bits: int, options: dict[str, str]) -> None:
    for seed in range(5):
        x = bells(seed, 64)
        group = formats.encode_group(x, bits, **options)
        back = formats.decode_group(group, options.get("zero", "neg_min"))
        slack = group.s32 / 2 + group.s32 * 2**bits * 2.0**-10 + abs(group.minimum) * 2.0**-10
        assert max(abs(a - b) for a, b in zip(x, back, strict=True)) <= slack
        assert (group.code[x.index(min(x))], group.code[x.index(max(x))]) == (0, 2**bits - 1)


def test_degenerate_groups() -> None:
    assert formats.decode_group(formats.encode_group([3.0] * 4, 4)) == [3.0] * 4
    assert formats.encode_group([-7.25] * 4, 8)[:5] == ([0] * 4, 0, 0x4740, 8, 8)
    assert formats.encode_group([-0.0, 1.0, 0.0], 4).zero == 0
    assert formats.encode_group([0.0, 1.0, -0.0], 4, zero="min").zero == 0x8000
    tiny = formats.encode_group([0.0, 2.0**-24], 8)
    assert (tiny.code, tiny.scale, tiny.status) == ([0, 255], 0, 1)
    wide = formats.encode_group([-65504.0, 65504.0], 1)
    assert (wide.code, wide.scale, wide.status) == ([0, 1], fp16.INF, 2)
    assert [str(v) for v in formats.decode_group(wide)] == ["nan", "inf"]
    assert formats.encode_group([-70000.0, 70000.0], 8).status == 4
    assert formats.encode([1.0, 2.0], 16, 0)[0].code == [0x3C00, 0x4000]


@pytest.mark.parametrize(
    ("f", "size", "found"),
    [
        (32, 7936, [98, 122, 116, 140, 164, 196, 140, 216]),
        (64, 6144, [41, 54, 52, 64, 74, 96, 76, 108]),
        (128, 6784, [24, 32, 32, 37, 46, 60, 52, 69]),
        (256, 5760, [10, 14, 14, 16, 20, 27, 25, 32]),
    ],
)
def test_page_sizes(f: int, size: int, found: list[int]) -> None:
    names = ["K8V8", "K8V4", "K8V4_G12", "K8V2", "K4V4", "K4V2", "K4V2_G24", "K4V1"]

    assert formats.page_bytes(f) == size
    assert [formats.tokens(f, CONFIGS[name], size) for name in names] == found


def test_page_offsets_and_first_public_size() -> None:
    at = formats.offsets(128, CONFIGS["K8V4"], 32)
    names = ["K8V8", "K8V4", "K8V2", "K4V4", "K4V2", "K4V1"]

    assert list(at.values()) == [0, 4096, 4224, 6272, 6400, 6528, 6656, 6656]
    assert [formats.tokens(128, CONFIGS[name], 3456) for name in names] == [12, 16, 19, 22, 30, 35]
    assert not formats.has_layout(64, CONFIGS["K4V1"])
    assert formats.has_layout(64, CONFIGS["K2V4"], formats.Layout(k_group=2))


@pytest.mark.parametrize(
    ("name", "f", "n"), [("K8V2", 128, 37), ("K4V1", 128, 69), ("K4V2_G24", 64, 76), ("K16V16", 64, 5)]
)
def test_words_of_a_page_are_a_bijection(name: str, f: int, n: int) -> None:
    c = CONFIGS[name]
    keys, values = f * c.k_bits // 16, f * c.v_bits // 16
    places = {formats.key_word(i, t, keys, n) for i in range(keys) for t in range(n)}

    assert places == set(range(keys * n))
    even = n + n % 2
    words = {formats.value_word(i, t, values, n) for i in range(values) for t in range(even)}
    assert words == set(range(values * even))


@pytest.mark.parametrize(
    ("name", "f", "n"), [("K8V4", 128, 32), ("K4V1", 128, 69), ("K4V2_G24", 64, 76), ("K16V16", 64, 22)]
)
def test_page_gives_back_its_tokens(name: str, f: int, n: int) -> None:
    c = CONFIGS[name]
    page = formats.Page(f, c, formats.page_bytes(f), n)
    slots = (0, 1, n - 1)
    written = {}
    for slot in slots:
        key = [g._replace(status=0) for g in formats.encode(bells(slot, f), c.k_bits, c.k_groups)]
        value = formats.encode(bells(slot + 99, f), c.v_bits, c.v_groups)
        page.write(slot, key, value, slot / 7, slot)
        written[slot] = [g[:4] for g in key], [g[:4] for g in value], f32(slot / 7), slot
    for slot in slots:
        key, value, score, position = page.read(slot)
        assert written[slot] == ([g[:4] for g in key], [g[:4] for g in value], score, position)
    assert not any(page.data[page.at["end"] :])


# Selection.

SHARES = [x / 64 for x in (24, 1, 2, 6, 5, 2, 16, 8)]


def test_worked_prompt() -> None:
    found = units.cumulative(SHARES, 2, 3 / 64, 16 / 64)
    restarted = units.cumulative(SHARES, 2, 3 / 64, 16 / 64, "restart")

    assert found.numbers == (1, 3, 2)
    assert (found.low, found.high) == ([2, 5, 4], [3, 0, 6, 7])
    assert found.classes == [HIGH, PRUNED, LOW, HIGH, LOW, LOW, WINDOW, WINDOW]
    assert found.order == [1, 2, 5, 4, 3, 0, 6, 7]
    assert restarted.numbers == (1, 4, 1)
    assert units.cumulative(SHARES, 2, 0, 0).numbers == (0, 0, 6)
    assert units.cumulative(SHARES, 8, 0.5, 0.5).high == list(range(8))


def test_classes_of_single_tokens() -> None:
    found = units.per_token([0.01, 0.2, 0.05, 0.9, 0.3, 0.3], 2, 0.2, 1.0)

    assert found.classes == [PRUNED, HIGH, LOW, HIGH, WINDOW, WINDOW]
    assert (found.low, sorted(found.high[:2]), sorted(found.high)) == ([2], [1, 3], [1, 3, 4, 5])


def test_bitonic_network_sorts_and_is_not_stable() -> None:
    keys = [float(w >> 60) for w in prng.words(4, 0, 37)]
    order = units.bitonic(keys)

    assert [keys[i] for i in order] == sorted(keys)
    assert sorted(order) == list(range(37))
    assert order != sorted(range(37), key=lambda i: (keys[i], i))
    assert units.bitonic([2.0]) == [0]


def test_significance_of_a_prompt() -> None:
    p = [[[1.0, 0, 0]], [[0.5, 0.5, 0]], [[0.25, 0.25, 0.5]]]
    paper, diffkv = units.significance(p), units.significance(p, "diffkv")

    assert (paper.sums, paper.counts, paper.means) == ([0.75, 0.25, 0.0], [2, 1, 0], [0.375, 0.25, 0.0])
    assert paper.shares == [f32(0.6), f32(0.4), 0.0]
    assert (diffkv.sums, diffkv.counts) == ([1.75, 0.75, 0.5], [3, 2, 1])
    assert units.significance(p, score_queries=1).counts == [1, 1, 0]
    assert units.counts_at([0, 2, 3], 4, 3) == [3, 1, 0]
    assert units.counts_at([0, 2, 3], 4, 3, "diffkv") == [4, 2, 1]
    assert units.step_scores([1.0, 2.0], [[0.5, 0.5], [0.25, 0.75]], [0, 5], 5) == [1.5, 2.0]
    assert units.step_scores([1.0, 2.0], [[0.5, 0.5], [0.25, 0.75]], [0, 5], 5, "diffkv") == [1.5, 2.75]


def test_critical_tokens_and_coefficients() -> None:
    assert [units.critical_tokens([0.25, 0.5, 0.125, 0.125], x) for x in (0, 0.5, 0.51, 1)] == [0, 1, 2, 4]
    assert units.coefficients([0.5, 0.25], [[3, 4], [0, -1]]) == [2.5, 0.25]


def decide(high: list[float], low: list[float], t_low: float, t_high: float, window: int = 2) -> tuple[str, Decision]:
    """Algorithm 1 on tokens 0, 1, ..: those of the low section first, then those of the high one."""
    n = len(high) + len(low)
    old = n - window
    positions = list(range(len(low), n))
    found = units.algorithm1(
        list(zip(positions, high, strict=True)), list(zip(range(len(low)), low, strict=True)), n, window, t_low, t_high
    )
    assert old in positions
    return {v: k for k, v in units.CASES.items()}[found.case], found


@pytest.mark.parametrize(
    ("high", "low", "case", "expected"),
    [
        ([30, 20, 20, 10], [20], "A1", (4, -1, 1, 0)),
        ([10, 20, 30, 20, 10], [10], "A2", (0, 1, 0, 1)),
        ([1, 49, 30, 20], [0], "A3", (0, -1, 0, 0)),
        ([40, 30, 10, 10], [10], "B1", (2, 1, 0, 1)),
        ([40, 30, 10, 10], [10, 1], "B2", (2, 1, 0, 0)),
        ([40, 45, 1, 14], [0], "C", (2, -1, 0, 0)),
    ],
)
def test_cases_of_algorithm_1(high: list[float], low: list[float], case: str, expected: tuple[int, ...]) -> None:
    """Thresholds 5 % and 20 % of a total of 100; the candidate is the last but one high token."""
    scale = 100 / (sum(high) + sum(low))
    found = decide([x * scale for x in high], [x * scale for x in low], 0.05, 0.2)

    assert (found[0], found[1][1:]) == (case, expected)


def test_stored_tokens_grow_by_one_at_most() -> None:
    draws = iter(prng.words(8, 0, 10000))
    high = [(t, 0.0) for t in range(4)]
    low: list[tuple[int, float]] = []
    for n in range(4, 60):
        high = [(t, f32(float(next(draws) >> 40) ** 2)) for t, _ in high]
        low = [(t, f32(float(next(draws) >> 44) ** 2)) for t, _ in low]
        found = units.algorithm1(high, low, n, 4, 0.01, 0.08)
        sizes = len(high), len(low)
        high, low = units.apply(high, low, found, (n, 0.0))
        assert (len(high) - sizes[0], len(low) - sizes[1]) == found[3:]
        assert sum(found[3:]) in (0, 1)
        assert {t for t, _ in high} >= set(range(n - 3, n + 1))
    assert low


def test_published_policy() -> None:
    high, low = [(0, 0.5), (1, 0.01), (2, 0.3), (3, 0.3)], [(9, 0.001)]
    cases = units.CASES

    assert units.diffkv(high, [], 4, 8, 0.1, 0.5)[0] == cases["append"]
    assert units.diffkv(high, [], 10, 2, 0.2, 0.5) == (cases["prune"], 1, -1, 0, 0)
    assert units.diffkv(high, low, 12, 2, 0.2, 0.5) == (cases["swap"], 1, 0, 0, 0)
    assert units.diffkv(high, [], 10, 2, 0.05, 0.5) == (cases["downgrade"], 1, 0, 0, 1)
    assert units.diffkv(high, low, 10, 2, 0.0, 0.05)[0] == cases["append"]


def test_ties_by_reversed_lanes() -> None:
    section = [(t, 1.0) for t in range(200)]

    assert units.lane_minimum(section, 1000, 2) == (1.0, 0)
    for first, second in [(1, 2), (3, 64), (5, 6), (129, 2), (127, 126)]:
        tied = [(t, 0.0 if t in (first, second) else 1.0) for t in range(200)]
        assert units.lane_minimum(tied, 1000, 2)[1] == min(
            first, second, key=lambda t: (int(f"{t % 128:07b}"[::-1], 2), t)
        )


def test_equal_budgets() -> None:
    found = units.static_prompt([0.5, 0.1, 0.1, 0.4, 0.0, 0.0], 2, 67)

    assert found.classes == [HIGH, PRUNED, PRUNED, HIGH, WINDOW, WINDOW]
    assert units.static_step([(0, 0.5), (3, 0.4), (4, 0), (5, 0)], 6, 2, 50)[:3] == (13, 2, -1)
    assert units.static_step([(0, 0.5), (3, 0.4), (4, 0), (5, 0)], 6, 2, 80)[0] == 12


# Memory.


@pytest.mark.parametrize("reserve", [0, 1])
def test_memory_example(reserve: int) -> None:
    """[leankv Fig. 5]: eight tokens, two heads, pages of two high or four low tokens."""
    manager = memory.Manager(32, 1, 2, 2, 4, 12, reserve)
    manager.prompt_allocate({0: 8})
    first = 4 + reserve
    assert [manager.pages[0, 0, h].high for h in (0, 1)] == [list(range(first)), list(range(first, 2 * first))]
    manager.prompt_release({(0, 0, 0): (2, 4), (0, 0, 1): (4, 3)})

    assert manager.length == 7
    assert manager.cells((0, 0, 0)) == {0: 0, 6: 1}
    assert manager.cells((0, 0, 1)) == {0: first, 1: first + 1, 6: first + 2}
    assert manager.list.ring[: 3 + 2 * reserve] == ([2, 3, 7], [2, 3, 4, 8, 9])[reserve]
    assert (manager.list.bounds, len(manager.list.free)) == ((2 * first, 2 + 2 * reserve), 27)
    assert memory.prefix([2, 1], 0)[0] == [2, 3]


def test_prefix_network() -> None:
    assert memory.prefix([16, 32]) == ([16, 48], 1, 1)
    for m in range(1, 40):
        sums, levels, additions = memory.prefix([1] * m, 5)
        assert (sums, levels) == ([5 + i for i in range(1, m + 1)], math.ceil(math.log2(m)))
        assert additions == m * levels - (2**levels - 1)


def test_pages_are_never_lost() -> None:
    manager = memory.Manager(60, 2, 2, 2, 4, 12)
    manager.prompt_allocate({7: 8, 8: 3})
    kept = {head: (8, 0) if head[0] == 7 else (1, 2) for head in manager.all_heads([7, 8])}
    kept[7, 1, 1] = (7, 1)
    manager.prompt_release(kept)
    assert len(manager.cells((7, 1, 1))) == 5  # one more than the prompt was given
    counts = manager.step_allocate(dict.fromkeys(manager.all_heads([7, 8]), (0, 1)))
    assert counts[7, 0, 0] == 1
    assert counts[7, 1, 1] == 0
    owned = [page for held in manager.pages.values() for page in held.high + held.low]
    assert sorted([*owned, *manager.list.free]) == list(range(60))
    manager.finish([8, 7])
    assert sorted(manager.list.free) == list(range(60))
    assert (manager.list.tail - manager.list.head, manager.slots) == (60, {})
    with pytest.raises(LookupError):
        manager.prompt_allocate({9: 100})


def test_table_without_extra_cells_overflows() -> None:
    for extra in (0, 1):
        manager = memory.Manager(30, 1, 1, 2, 4, 8, extra=extra)
        manager.prompt_allocate({0: 8})
        manager.prompt_release({(0, 0, 0): (7, 1)})
        if extra:
            assert len(manager.cells((0, 0, 0))) == 5
        else:
            with pytest.raises(LookupError):
                manager.cells((0, 0, 0))


# Attention.


@pytest.mark.parametrize("options", [attention.Options(), attention.Options("sequential", False)])
@pytest.mark.parametrize("recip", [False, True])
def test_attention_is_near_the_exact_one(options: attention.Options, recip: bool) -> None:
    options = options._replace(recip=recip, eps=attention.EPSILON if recip else 0.0)
    q = bells(1, 32)
    tokens = [(bells(2 + t, 32), bells(200 + t, 32)) for t in range(41)]
    out, p = attention.paged_attention(q, [tokens[:12], tokens[12:20]], [tokens[20:40], tokens[40:]], options)
    logits = [sum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(32) for key, _ in tokens]
    e = [math.exp(x - max(logits)) for x in logits]

    assert len(p) == 41
    assert all(math.isclose(x, y / sum(e), rel_tol=1e-4) for x, y in zip(p, e, strict=True))
    for i, word in enumerate(out):
        exact = sum(y * v[i] for y, (_, v) in zip(e, tokens, strict=True)) / sum(e)
        assert abs(fp16.to_float(word) - exact) < 0.01


def test_one_token_and_one_chunk() -> None:
    value = bells(3, 32)
    out, p = attention.paged_attention(bells(1, 32), [[(bells(2, 32), value)]], [])

    assert (out, p) == ([fp16.from_float(v) for v in value], [1.0])
    assert attention.chunk_tokens(32, 60) == 5760
    assert attention.chunk_tokens(32, 52) == 4992


def test_maximum_of_some_lanes() -> None:
    keys = [[float(t == 2)] + [0.0] * 31 for t in range(4)]
    pages = [[(key, key) for key in keys]]
    q = [8.0] + [0.0] * 31
    out, p = attention.paged_attention(q, pages, [], attention.Options(lane_max=True))

    assert sum(map(Fraction, p)) > Fraction(999, 1000)
    assert attention.attend(q, pages, [], attention.Options(lane_max=True)).maximum == 0.0
    assert len(out) == 32


def test_chunks_agree_with_one_block() -> None:
    q = bells(1, 32)
    tokens = [(bells(2 + t, 32), bells(200 + t, 32)) for t in range(60)]
    pages = [tokens[i : i + 10] for i in range(0, 40, 10)], [tokens[40:60]]
    whole = attention.attend(q, *pages, attention.Options())
    parts = attention.partitioned(q, *pages, attention.Options(), (2400, 1))

    for a, b in zip(whole.p, parts[1], strict=True):
        assert math.isclose(a, b, rel_tol=1e-5)
    for a, word in zip(whole.out, parts[0], strict=True):
        assert abs(a - fp16.to_float(word)) < 0.01


def test_pages_share_accumulators_by_eights() -> None:
    """2**30 of page 0 and -2**30 of page 8 meet in one accumulator, before the 1 of page 3 is added."""
    amounts = {0: 2.0**30, 3: 1.0, 8: -(2.0**30)}
    key = [0.0] * 32
    pages = [[(key, [amounts.get(j, 0.0)] * 32), (key, key)] for j in range(9)]
    out, p = attention.paged_attention(key, pages, [])

    assert p == [f32(1 / 18)] * 18
    assert out == [fp16.from_float(f32(1 / 18))] * 32
