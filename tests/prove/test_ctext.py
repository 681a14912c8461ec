"""Terms in C have the values of terms."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.prove import ctext, terms
from refemu.prove.naming import Names
from refemu.prove.statements import statements
from tests import sanitizers
from tests.prove.random_terms import INPUTS, random_rows, random_terms

ROWS = 100


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("cc"), reason="no cc on PATH; Debian, Ubuntu: apt-get install gcc")
@pytest.mark.parametrize("seed", range(4))
def test_operations_have_the_values_of_terms(seed: int, tmp_path: Path) -> None:
    roots, rows = random_terms(seed), random_rows(seed, ROWS)
    lines, texts = statements(roots, Names(), {name: name for name in INPUTS}, set(INPUTS), ctext.LANGUAGE)
    body = [f"const uint64_t {name} = in[{at}];" for at, name in enumerate(INPUTS)]
    body += map(ctext.declared, lines)
    for at, text in enumerate(texts):
        body += [f"out[{2 * at}] = (uint64_t){text};", f"out[{2 * at + 1}] = (uint64_t)((uint128_t){text} >> 64);"]
    source = tmp_path / "terms.c"
    head = "#include <stdint.h>\ntypedef unsigned __int128 uint128_t;\nvoid f(const uint64_t *in, uint64_t *out) {\n"
    source.write_text(head + "\n".join(body) + "\n}\n")
    flags = ["-shared", "-fPIC", "-O1", *sanitizers.flags("cc", sanitizers.UNDEFINED)]
    subprocess.run(["cc", *flags, "-o", tmp_path / "terms.so", source], check=True)
    library = ctypes.CDLL(str(tmp_path / "terms.so"))
    expected = terms.evaluate(roots, {name: np.array(each, np.uint64) for name, each in rows.items()}, ROWS)
    for row in range(ROWS):
        given = np.array([rows[name][row] for name in INPUTS], np.uint64)
        out = np.zeros(2 * len(roots), np.uint64)
        library.f(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        for at, root in enumerate(roots):
            assert int(out[2 * at]) | int(out[2 * at + 1]) << 64 == int(expected[at][row]), (root, row)


def test_integers_wider_than_128_bits_are_rejected() -> None:
    with pytest.raises(Refused, match="at most 128 bits in C, got 129"):
        ctext.type_of(129)


def test_wide_constant_has_two_words() -> None:
    assert ctext.constant((5 << 64) | 7, 70) == "((uint128_t)0x5ull << 64 | 0x7ull)"
