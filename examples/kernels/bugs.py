"""Bugs for the kernels, as changes of their text: the golden sets must catch each of them."""

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bug:
    """One change of one file."""

    way: str  #: of ways.WAYS
    unit: str
    what: str  #: one line
    file: str
    right: str  #: text that occurs once in the file
    wrong: str  #: what takes its place


BUGS = [
    Bug(
        "C, called",
        "ovp_decoder",
        "left element in the high half",
        "ovp_decoder.c",
        "{pair[row] & CODE, pair[row] >> WIDTH}",
        "{pair[row] >> WIDTH, pair[row] & CODE}",
    ),
    Bug(
        "C, program",
        "ovp_decoder",
        "exponent one bit too narrow",
        "ovp_decoder.c",
        "(1 << OVP_DECODER_EXPONENT_BITS) - 1",
        "(1 << (OVP_DECODER_EXPONENT_BITS - 1)) - 1",
    ),
    Bug(
        "numba.cuda",
        "ovp_decoder",
        "hidden bit of an outlier dropped",
        "cuda_kernels.py",
        "value = (1 << man_bits) | (magnitude",
        "value = (magnitude",
    ),
    Bug(
        "Triton",
        "ovp_decoder",
        "a victim decodes as a normal value",
        "triton_kernels.py",
        "tl.where(code == IDENTIFIER, 0, value)",
        "value",
    ),
    Bug("C, called", "bfp_pe", "ties of FP16 away from zero", "bfp_dot.c", "&& m & 1)", ")"),
    Bug(
        "C, program", "bfp_pe", "exponent 0 taken as one below 1", "bfp_dot.c", "(a_exp[i] ? a_exp[i] : 1)", "a_exp[i]"
    ),
    Bug(
        "numba.cuda",
        "bfp_pe",
        "flags not cleared with the accumulator",
        "cuda_kernels.py",
        "total, sticky = np.float32(0), 0\n            if half",
        "total = np.float32(0)\n            if half",
    ),
    Bug(
        "Triton",
        "bfp_pe",
        "INT4 weights without sign",
        "triton_kernels.py",
        "tl.where(m == 0, right - (right >> 3) * 16, right)",
        "right",
    ),
    Bug(
        "numba.cuda",
        "paged_attention",
        "neighbouring slots in neighbouring accumulators",
        "cuda_leankv.py",
        "if slot // slots % rows == row:",
        "if slot % rows == row:",
    ),
    Bug(
        "numba.cuda",
        "paged_attention",
        "half of the threads add the exponentials",
        "cuda_leankv.py",
        "shape[0], shape[1], shape[2]",
        "shape[0], shape[1] // 2, shape[2]",
    ),
    Bug(
        "numba.cuda",
        "paged_attention",
        "low pages from the left",
        "cuda_leankv.py",
        "return number if section == 0 else cells - 1 - number",
        "return number",
    ),
    Bug(
        "Triton",
        "paged_attention",
        "products rounded before they are added",
        "triton_leankv.py",
        "acc = tl.where(there[:, None], fma32(weight, value, acc), acc)",
        "acc = tl.where(there[:, None], weight * value + acc, acc)",
    ),
    Bug(
        "Triton",
        "paged_attention",
        "accumulators paired with their neighbours",
        "triton_leankv.py",
        "tl.split(tl.permute(tl.reshape(values, (COUNT, 2, WIDTH >> (level + 1))), (0, 2, 1)))",
        "tl.split(tl.reshape(values, (COUNT, WIDTH >> (level + 1), 2)))",
    ),
    Bug(
        "Triton",
        "paged_attention",
        "multiplied by the rounded reciprocal of the sum",
        "triton_leankv.py",
        "tl.math.div_rn(e, tl.zeros_like(e) + total)",
        "e * tl.math.div_rn(tl.zeros_like(e) + 1, tl.zeros_like(e) + total)",
    ),
    Bug(
        "numba.cuda",
        "prompt_compressor",
        "a token whose sum meets the threshold is pruned",
        "cuda_leankv.py",
        "if kept == 0 and running < thresholds[i, 0]:",
        "if kept == 0 and running <= thresholds[i, 0]:",
    ),
    Bug(
        "Triton",
        "prompt_compressor",
        "of equal shares the later token first",
        "triton_leankv.py",
        "(other == mine) & (u < t)",
        "(other == mine) & (u > t)",
    ),
    Bug(
        "numba.cuda",
        "prefix_sum",
        "the last level of the scan is left out",
        "cuda_memory.py",
        "while step < heads:",
        "while 2 * step < heads:",
    ),
    Bug(
        "numba.cuda",
        "prefix_sum",
        "a thread adds its neighbour in every level",
        "cuda_memory.py",
        "more = sums[t - step] if t >= step else 0",
        "more = sums[t - 1] if t >= step else 0",
    ),
    Bug(
        "Triton",
        "prefix_sum",
        "regions begin at their own count",
        "triton_memory.py",
        "tl.load(base + i) + tl.cumsum(own, 0)",
        "tl.load(base + i) + tl.cumsum(own, 0) - own",
    ),
    Bug(
        "numba.cuda",
        "kv_quantizer",
        "halves round up",
        "cuda_memory.py",
        "rest == 0.5 and whole % 2 == 1",
        "rest == 0.5",
    ),
    Bug(
        "numba.cuda",
        "kv_quantizer",
        "the first feature in the highest bits",
        "cuda_memory.py",
        "<< (lane * bits[i])",
        "<< ((per - 1 - lane) * bits[i])",
    ),
    Bug(
        "Triton",
        "kv_quantizer",
        "a minimum of -0 is stored as it is",
        "triton_memory.py",
        "tl.load(x + i * F + t) + 0.0",
        "tl.load(x + i * F + t) * 1.0",
    ),
]
BUGS += [
    Bug("C, called", "page_reader", "vectors of a key in the order of features", "page_reader.c",
        "page.key[p / 4 % 4][t][p / 16][p % 4]", "page.key[p / 16][t][p / 4 % 4][p % 4]"),
    Bug("C, program", "page_reader", "ties of fp16 away from zero", "page_reader.c", "&& (kept & 1))", ")"),
    Bug("numba.cuda", "page_reader", "tokens of a value not side by side", "cuda_pages.py",
        "((q % 4 * 16 + t // 2) * 8 + q // 4) * 2 + t % 2", "(q % 4 * 32 + t) * 8 + q // 4"),
    Bug("Triton", "page_reader", "the zero point is added", "triton_pages.py",
        "key_scale - key_zero", "key_scale + key_zero"),
    Bug("numba.cuda", "kv_compressor", "a moved token is that of the ports, not of its page", "cuda_compressor.py",
        "layouts[1], to, k, v, tail, moved[i]", "layouts[1], to, key[i, t], value[i, t], tail, moved[i]"),
    Bug("numba.cuda", "kv_compressor", "every token goes to the first page of its section", "cuda_compressor.py",
        "base, place, at = slot // layout[TOKENS] * page_words,", "base, place, at = 0,"),
    Bug("Triton", "kv_compressor", "a moved token is always appended", "triton_compressor.py",
        "n_low = tl.maximum(n_low, to + 1)", "n_low += 1"),
    Bug("Triton", "kv_compressor", "a victim of the second page is sought in the first", "triton_compressor.py",
        "high + victim // held * page_words", "high"),
]  # fmt: skip


def planted(bug: Bug, sources: Path, target: Path) -> Path:
    """A copy of the kernels in `target` with the bug. Raises ValueError unless the text occurs exactly once."""
    shutil.copytree(sources, target, ignore=shutil.ignore_patterns("__pycache__"))
    text = (target / bug.file).read_text()
    if text.count(bug.right) != 1:
        raise ValueError(f"{bug.file}: {bug.right!r} must occur once, got {text.count(bug.right)} times")
    (target / bug.file).write_text(text.replace(bug.right, bug.wrong))
    return target
