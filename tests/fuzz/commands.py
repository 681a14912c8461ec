"""Words of the command line, valid and invalid; none takes long or reaches the network."""

from random import Random

from refemu.models.schemes import SCHEMES, describe
from tests.fuzz.mutate import WORDS
from tests.fuzz.samples import Set

NUMBERS = (
    "0",
    "1",
    "2",
    "1",
    "4",
    "64",
    "128",
    "-1",
    "0x10",
    "9" * 30,
    "9" * 5000,
    "0x" + "f" * 5000,
    "1.5",
    "x",
    "",
    "nan",
    "１",
    "1_0",
)
CONDITIONS = (
    "index == 1",
    "event == 'load'",
    "1 << (1 << 40)",
    "(1 << 99) * (1 << 99)",
    "not",
    "index",
    "-index < 0",
    "index[0]",
    "'a' * 10**9",
    "index.bit_length()",
    "1 if 1 else 2",
    "[1]",
    "lambda: 0",
    "index ** 9",
    "~1",
    "0xffff",
    "1e999",
    "1j < 2",
    "b'x' == 1",
    "...",
    "None",
    "index == index == 1 or index > 2",
    "1 // 0",
    "index -" + " -" * 900 + " 1",
    "1" + "+1" * 1500,
    "(" * 150 + "1" + ")" * 150,
    "not " * 900 + "1",
    "\\",
    "x" * 5000,
    "index < 3",
    "index > 1",
    "event != 'load'",
    "index & 1 == 0",
    "index * 3 - 1",
    "'\\d'",
    "1and 2",
    "9" * 4200,
    "index << 64 >> 64",
    "a := 1",
    "index < {}",
    "f'{index}'",
)
_FIELDS = [part for row in describe() for part in row["parameters"].split() if "=" in part]
_VALUES = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "16",
    "1e9",
    "1e999",
    "-1e999",
    "nan",
    "none",
    "true",
    "false",
    "x",
    "",
    "0.5",
    "9" * 30,
    "9" * 4000,
    "9" * 5000,
    "4+4",
    "+",
    "0+0+0",
    "inf+nan",
    "all",
    "lm_head",
    "int",
    "fp16",
    "\ud800",
)
UNITS = ("concat", "orizuru", "sub_pe", "concatt", "")
_FILES = ("absent", ".", "/dev/null", "/proc/self/mem", "a" * 300, "~nobody_here/x", "\udcff", "a\nb")


def scheme(rng: Random) -> str:
    """A scheme with some fields, its own or those of other schemes."""
    name = rng.choice([*SCHEMES, "fp61", ""])
    parts = []
    for _ in range(rng.randint(0, 4)):
        field, _, value = rng.choice(_FIELDS).partition("=")
        parts.append(f"{field}={value if rng.random() < 0.4 else rng.choice(_VALUES)}")
    if rng.random() < 0.1:
        parts.append(rng.choice(WORDS))
    return f"{name}:{','.join(parts)}" if parts else name


def step(rng: Random, one: Set) -> list[str]:
    """`refemu step` with a condition, inputs and a case, perhaps invalid ones."""
    found = ["step", one.unit]
    if rng.random() < 0.7:
        condition = rng.choice(CONDITIONS)
        found.append(f"--break={_joined(rng, condition) if rng.random() < 0.5 else condition}")
    how = rng.random()
    if how < 0.4:
        number = rng.choice((*NUMBERS, "0", "0", "1", "2", "²", "-0", "00"))
        found += ["--case", rng.choice((f"{one.folder}:{number}", number, f":{number}", f"{one.folder}"))]
    elif how < 0.8:
        ports = [entry["name"][3:] for entry in one.manifest["arrays"] if entry["role"] == "stimulus"]
        for port in ports:
            values = [rng.choice(("0", "1", "0x1")) for _ in range(rng.choice((1, 4, 8)))]
            if rng.random() < 0.5:
                values[rng.randrange(len(values))] = rng.choice(NUMBERS)
            found.append(f"--input={port if rng.random() < 0.9 else rng.choice(('x', ''))}={','.join(values)}")
    return found + (["--json"] if rng.random() < 0.5 else [])


def _joined(rng: Random, condition: str) -> str:
    mark = rng.choice((" and ", " or ", " + ", " * ", " << ", " >> ", " - ", " == ", " < ", "[", " & ", " ^ "))
    return f"({condition}){mark}({rng.choice(CONDITIONS)})"


def line(rng: Random, one: Set) -> list[str]:
    """A command with options, its own and those of other commands."""
    found = rng.choice(_COMMANDS)(rng, one)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3))):
        how, at = rng.random(), rng.randint(0, len(found))
        if how < 0.5:
            found[at:at] = [_possible(rng.choice(WORDS))]
        elif how < 0.7 and len(found) > 1:
            del found[rng.randrange(1, len(found))]
        else:
            found[at:at] = [rng.choice(_OPTIONS), rng.choice(NUMBERS)]
    return _harmless(found)


def _possible(word: str) -> str:
    """A word that an operating system can hand over."""
    return word.replace("\0", "")[: 1 << 16]


def _harmless(words: list[str]) -> list[str]:
    """The words without those that reach the network or run all units."""
    if "generate" in words[:2] and "--unit" not in words:
        words = [*words, "--unit", "concat"]
    return [word for word in words if word not in ("fetch", "--scheduler", "--workers")]


_OPTIONS = (
    "--json",
    "--seed",
    "--cases",
    "--tokens",
    "--win",
    "--kinds",
    "--layer",
    "--config",
    "--threads",
    "--ports",
    "--head",
    "--page-bytes",
    "--k-group",
    "--byte",
    "--text",
    "--scheme",
    "--model",
    "--prefill",
    "-h",
    "--x",
)
_COMMANDS = (
    lambda rng, one: ["list", rng.choice(("formats", "units", "schemes", "models", "x"))],
    lambda rng, one: [
        "show",
        rng.choice(("INT4", "FLINT4", "OVP_INT8", "FP16", "BFP_HARMONIA", "x")),
        rng.choice(NUMBERS),
    ],
    lambda rng, one: [
        "show",
        "page",
        rng.choice(("K8V4", "K4V2", "K0V0", "")),
        "--head",
        rng.choice(NUMBERS),
        "--page-bytes",
        rng.choice(NUMBERS),
        "--k-group",
        rng.choice(NUMBERS),
    ],
    lambda rng, one: [
        "generate",
        "-o",
        rng.choice(("out", "", *_FILES)),
        "--unit",
        rng.choice(UNITS),
        "--kinds",
        rng.choice(("paper", "edge,paper", "random", "x", "", ",")),
        "--seed",
        rng.choice(NUMBERS),
    ],
    lambda rng, one: [
        "generate",
        "--stdout",
        "--unit",
        rng.choice(UNITS),
        "--kinds",
        "paper",
        "--config",
        rng.choice(("a4", "n8", "", "x")),
    ],
    lambda rng, one: [
        "generate",
        "-o",
        "out",
        "--unit",
        "concat",
        "--layer",
        rng.choice(("0", "0-99999999999", "all", "1-0", "²", *NUMBERS)),
        "--tokens",
        rng.choice(NUMBERS),
    ],
    lambda rng, one: ["check", rng.choice((str(one.folder), *_FILES))],
    lambda rng, one: ["check", "--stdin", "--unit", rng.choice(UNITS)],
    lambda rng, one: [
        "diff",
        str(one.folder),
        rng.choice((str(one.folder), *_FILES)),
        "--ports",
        rng.choice(("", ",", "x", "q")),
    ],
    lambda rng, one: [
        "export",
        rng.choice(("csv", "jsonl", "testfloat", "rtl", "x")),
        rng.choice((str(one.folder), one.unit, *_FILES)),
        "-o",
        rng.choice(("out", *_FILES)),
    ],
    lambda rng, one: [
        "ppl",
        "--model",
        rng.choice(("tiny", "tny", *_FILES)),
        "--tokens",
        rng.choice(NUMBERS),
        "--win",
        "2",
        "--scheme",
        "fp61",
        "--text",
        rng.choice(_FILES),
    ],
    lambda rng, one: [
        "study",
        rng.choice(("olive", "kllm", "harmonia", "leankv", "accuracy", "x")),
        "--model",
        rng.choice(_FILES),
    ],
    lambda rng, one: ["models", rng.choice(("list", "remove", "x")), rng.choice(("tiny", "smollm2-135m", "x", ""))],
    lambda rng, one: step(rng, one),
)
