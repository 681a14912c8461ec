"""Random terms of every operation on bit vectors."""

import random
from collections.abc import Callable

from refemu.prove import terms
from refemu.prove.terms import Term

WIDTHS = (1, 2, 7, 8, 33, 64)
INPUTS = {f"v{width}": width for width in WIDTHS}
BINARY: tuple[Callable[[Term, Term], Term], ...] = (
    *(terms.and_, terms.or_, terms.xor, terms.add, terms.sub, terms.mul, terms.shl, terms.lshr, terms.ashr),
    *(terms.udiv, terms.urem, terms.eq, terms.ult, terms.slt),
)


def _term(draw: random.Random, known: list[Term], most: int) -> Term:
    a = draw.choice(known)
    b = draw.choice([each for each in known if each.width == a.width])
    width = draw.randint(a.width, max(most, a.width))
    low = draw.randrange(a.width)
    operations: list[Callable[[], Term]] = [
        lambda: terms.not_(a),
        lambda: terms.ite(draw.choice([each for each in known if each.width == 1]), a, b),
        lambda: terms.concat(a, draw.choice(known)),
        lambda: terms.extract(a, low, draw.randint(1, a.width - low)),
        lambda: terms.zext(a, width),
        lambda: terms.sext(a, width),
    ]
    at = draw.randrange(len(operations) + len(BINARY))
    return operations[at]() if at < len(operations) else BINARY[at - len(operations)](a, b)


def random_terms(seed: int, count: int = 150, most: int = 100) -> list[Term]:
    """Terms over `INPUTS`, each on earlier ones. most: bits of the widest."""
    draw = random.Random(seed)
    known = [terms.variable(name, width) for name, width in INPUTS.items()]
    known += [terms.const(draw.getrandbits(width), width) for width in WIDTHS]
    answer: list[Term] = []
    while len(answer) < count:
        term = _term(draw, known, most)
        if term.args and term.width <= most:
            known.append(term)
            answer.append(term)
    return answer


def random_rows(seed: int, count: int) -> dict[str, list[int]]:
    """Values of the inputs, with small shifts and divisors of 0 among them."""
    draw = random.Random(seed)
    return {
        name: [
            draw.choice((0, 1, (1 << width) - 1, draw.getrandbits(width), draw.getrandbits(4) % (1 << width)))
            for _ in range(count)
        ]
        for name, width in INPUTS.items()
    }
