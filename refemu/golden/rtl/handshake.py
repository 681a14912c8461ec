"""Bubbles and back-pressure of the cocotb testbench: equal seeds give the cycles of the Verilog testbench."""

_WORD = 0xFFFFFFFF
_RATES = (8, 6, 4, 1)  # of 8: always, often, half of the time, seldom


class Chances:
    """Xorshift of 32 bits; rates change from time to time."""

    def __init__(self, seed: int) -> None:
        self.word: int = (seed ^ 0x9E3779B9) & _WORD or 1
        self._enter = self._take = 4

    def draw(self) -> None:
        """Draw the next cycle."""
        word = self.word
        word ^= word << 13 & _WORD
        word ^= word >> 17
        word ^= word << 5 & _WORD
        self.word = word
        if word >> 8 & 31 == 0:
            self._enter, self._take = _RATES[word >> 13 & 3], _RATES[word >> 15 & 3]

    @property
    def enters(self) -> bool:
        """Whether a row is offered in this cycle."""
        return (self.word & 7) < self._enter

    @property
    def takes(self) -> bool:
        """Whether an answer is taken in this cycle."""
        return (self.word >> 3 & 7) < self._take
