"""Bubbles and back-pressure: a seed always gives the same long and short stalls, as in the Verilog testbench."""

from refemu.golden.rtl.handshake import Chances


def drawn(seed: int, cycles: int) -> list[tuple[bool, bool]]:
    chances = Chances(seed)
    pairs = []
    for _ in range(cycles):
        chances.draw()
        pairs.append((chances.enters, chances.takes))
    return pairs


def test_a_seed_draws_the_same_cycles() -> None:
    assert drawn(1, 500) == drawn(1, 500) != drawn(2, 500)


def test_the_words_are_those_of_xorshift() -> None:
    """Marsaglia's triple 13, 17, 5 from the word 1; a seed that gives 0 begins at 1."""
    chances = Chances(0x9E3779B8)
    assert chances.word == 1
    chances.draw()
    assert chances.word == 270369
    assert Chances(0x9E3779B9).word == 1


def test_stalls_are_long_and_short() -> None:
    for at in (0, 1):
        runs, length = [], 0
        for pair in drawn(1, 5000):
            length = 0 if pair[at] else length + 1
            runs.append(length)
        assert max(runs) > 10 and runs.count(1) > 100
