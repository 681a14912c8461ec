"""One damaged input for each reader: a function takes a seeded generator and samples, and returns what to run.

A job is words of the command line with what comes through standard input, or a call of the library.
"""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from refemu.golden.files import manifest as manifests
from refemu.golden.files import npz
from refemu.models import load, schemes, text, token_ids
from refemu.models.gguf_tokenizer import SPLITTINGS, from_gguf
from refemu.models.measure import accuracy
from refemu.models.weights.files import GgufFile
from tests.fuzz import archives, commands, plausible
from tests.fuzz.mutate import damaged, dumped, retold, swapped
from tests.fuzz.samples import Samples, Set
from tests.models import toy_vocabularies


@dataclass(frozen=True)
class Job:
    """What is run on a damaged input."""

    words: list[str] | None = None
    stdin: bytes = b""
    call: Callable[[], Any] | None = None


Reader = Callable[[Random, Samples, Path], Job]


def manifest(rng: Random, samples: Samples, folder: Path) -> Job:
    """A manifest with other values, most often sealed again, or with damaged bytes."""
    one = rng.choice(samples.sets)
    place = _copied(one, folder)
    data = (one.folder / "manifest.json").read_bytes()
    how = rng.random()
    if how < 0.1:
        data = damaged(rng, data)
    else:
        data = _sealed((swapped if how < 0.4 else plausible.changed)(rng, one.manifest), rng)
    (place / "manifest.json").write_bytes(data)
    return _on_set(rng, one, place)


def vectors(rng: Random, samples: Samples, folder: Path) -> Job:
    """Other arrays than the manifest lists, which is sealed again with their digests; or a damaged container."""
    one = rng.choice(samples.sets)
    place, arrays, told = _copied(one, folder), dict(one.arrays), json.loads(json.dumps(one.manifest))
    for name in rng.sample(sorted(arrays), 2):
        arrays[name] = archives.other_array(rng, arrays[name])
    for entry in told["arrays"]:
        array = arrays[entry["name"]]
        entry["sha256"] = manifests.array_sha256(array)
        if rng.random() < 0.5:
            entry |= {"shape": list(array.shape), "dtype": array.dtype.str[1:]}
    data = npz.to_bytes(arrays)
    (place / "vectors.npz").write_bytes(data if rng.random() < 0.7 else damaged(rng, data))
    (place / "manifest.json").write_bytes(_sealed(told, rng))
    return _on_set(rng, one, place)


def answer_npz(rng: Random, samples: Samples, folder: Path) -> Job:
    """An answer whose container, headers or shapes lie."""
    one, how = rng.choice(samples.sets), rng.random()
    data = one.answers["a.npz"]
    if how < 0.4:
        data = damaged(rng, data)
    elif how < 0.7:
        data = archives.with_headers(rng, data)
    else:
        data = archives.saved(
            rng,
            {
                name: archives.other_array(rng, array) if rng.random() < 0.5 else array
                for name, array in one.arrays.items()
                if name.startswith("out.")
            },
        )
    return _diff(one, folder / "a.npz", data)


def answer_hex(rng: Random, samples: Samples, folder: Path) -> Job:
    """Words that are none, too few, too long."""
    return _answer(rng, samples, folder, "gold.mem")


def answer_testfloat(rng: Random, samples: Samples, folder: Path) -> Job:
    """The same of TestFloat's lines."""
    return _answer(rng, samples, folder, "a.testfloat")


def answer_csv(rng: Random, samples: Samples, folder: Path) -> Job:
    """Headers, columns and cells."""
    return _answer(rng, samples, folder, "a.csv")


def answer_jsonl(rng: Random, samples: Samples, folder: Path) -> Job:
    """Objects of other types, and lines that are no JSON."""
    one = rng.choice(samples.sets)
    lines = one.answers["a.jsonl"].decode().splitlines()
    at = rng.randrange(len(lines))
    if rng.random() < 0.3:
        return _answer(rng, samples, folder, "a.jsonl")
    lines[at] = dumped(swapped(rng, json.loads(lines[at])))
    return _diff(one, folder / "a.jsonl", _encoded("\n".join(lines)))


def piped(rng: Random, samples: Samples, folder: Path) -> Job:
    """What a broken device sends."""
    one = rng.choice(samples.sets)
    data = b"".join(one.piped)
    config = one.folder.name.partition("-")[2]
    data = damaged(rng, data) if rng.random() < 0.4 else _encoded(retold(rng, data.decode()))
    return Job(["check", "--stdin", "--unit", one.unit, "--config", config], data)


def scheme(rng: Random, samples: Samples, folder: Path) -> Job:
    """A scheme's text with other fields and values: parsed, and written again."""
    return Job(call=lambda: schemes.text(schemes.parse(commands.scheme(rng))))


def gguf(rng: Random, samples: Samples, folder: Path) -> Job:
    """A header that lies, mostly; the weights lie behind it."""
    path = folder / "m.gguf"
    path.write_bytes(damaged(rng, samples.gguf.read_bytes(), rng.choice((64, 1024, 1 << 14, None))))
    return _model(rng, path)


def gguf_vocabulary(rng: Random, samples: Samples, folder: Path) -> Job:
    """Tokenizers of every kind in a file of no tensors, whose tokens, scores and types lie."""
    kinds = (toy_vocabularies.write_sentencepiece, toy_vocabularies.write_word_pieces)
    splittings = [lambda path, pre=pre: toy_vocabularies.write_byte_level(path, pre) for pre in SPLITTINGS]
    path = rng.choice([*kinds, *splittings])(folder / "m.gguf")
    path.write_bytes(damaged(rng, path.read_bytes()))

    def read() -> None:
        tokenizer = from_gguf(GgufFile(path))
        ids = tokenizer.sentence("the thin", 8)
        tokenizer.decode(tokenizer.encode("it is 12 [SEP] <s>\u4e94") + ids)

    return Job(call=read)


def safetensors(rng: Random, samples: Samples, folder: Path) -> Job:
    """Another header, its length right or not, or damaged bytes."""
    place = _model_copied(rng, samples, folder)
    data = (place / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    if rng.random() < 0.4:
        data = damaged(rng, data, length + 8)
    else:
        header = _encoded(dumped(swapped(rng, json.loads(data[8 : 8 + length]))))
        data = len(header).to_bytes(8, "little") + header + data[8 + length :]
    (place / "model.safetensors").write_bytes(data)
    return _model(rng, place)


def config_json(rng: Random, samples: Samples, folder: Path) -> Job:
    """Sizes that are none."""
    return _model(rng, _with_json(rng, _model_copied(rng, samples, folder) / "config.json"))


def tokenizer_json(rng: Random, samples: Samples, folder: Path) -> Job:
    """A tokenizer that the library may know or not."""
    return _model(rng, _with_json(rng, _model_copied(rng, samples, folder) / "tokenizer.json"))


def index_json(rng: Random, samples: Samples, folder: Path) -> Job:
    """Files that are not there, and names that are none."""
    shutil.copytree(samples.shards, folder / "m")
    return _model(rng, _with_json(rng, folder / "m/model.safetensors.index.json"))


def texts(rng: Random, samples: Samples, folder: Path) -> Job:
    """A text, or rated sentences, that are no UTF-8 or of another form."""
    path = folder / "t.txt"
    lines = "1\t0.5\ta good film\n2\t-1.25\tan awful film\n"
    path.write_bytes(damaged(rng, lines.encode()) if rng.random() < 0.5 else _encoded(retold(rng, lines, "\t\n ")))
    if rng.random() < 0.1:
        return Job(["study", "accuracy", "--model", "tiny", "--data", str(path)])  # a decoder: refused once it is read
    return Job(call=lambda: (accuracy.read if rng.random() < 0.7 else text.read)(path))


def ids(rng: Random, samples: Samples, folder: Path) -> Job:
    """Token ids in text or in an .npy, damaged or of another form."""
    listed = np.array([rng.randrange(256) for _ in range(12)], rng.choice((np.int64, np.uint8, np.float64)))
    path = folder / rng.choice(("ids.txt", "ids.npy"))
    if path.suffix == ".npy":
        container = io.BytesIO()
        np.save(container, listed)
        path.write_bytes(damaged(rng, container.getvalue()))
    else:
        text_ = " ".join(str(token) for token in listed.tolist())
        path.write_bytes(_encoded(retold(rng, text_, "\t\n -.")))
    if rng.random() < 0.1:
        return Job(["cost", "--tokens", "4", "--ids", str(path)])
    return Job(call=lambda: token_ids.read(path, 256))


def campaign(rng: Random, samples: Samples, folder: Path) -> Job:
    """A folder with another request, or with damaged sets, to go on in."""
    place = Path(shutil.copytree(samples.campaign, folder / "c"))
    if rng.random() < 0.7:
        _with_json(rng, place / "campaign.json")
    else:
        path = rng.choice(sorted(path for path in place.rglob("*") if path.is_file()))
        path.write_bytes(damaged(rng, path.read_bytes()))
    return Job(["generate", "-o", str(place), "--unit", "concat", "--cases", rng.choice(("64", "64", "65"))])


def regression(rng: Random, samples: Samples, folder: Path) -> Job:
    """A folder for `refemu report`: a set or its answer, a log of its bench or a campaign's request is damaged."""
    one, root = rng.choice(samples.sets), folder / "r"
    root.mkdir()
    _copied(one, root)
    name = rng.choice(sorted(one.answers))
    lines = f"FAIL row 1: in 00 got {'x' * 3} want 000 care fff\n  y: got 1 want 0\nFAIL 1 of 6 rows differ\n"
    passed = f"PASS 6 rows of {one.folder.name}, sha256 {one.manifest['self_sha256']}\n"
    files = {
        root / one.folder.name / "manifest.json": (one.folder / "manifest.json").read_bytes(),
        root / f"{one.folder.name}.answers{Path(name).suffix}": one.answers[name],
        root / f"{one.folder.name}.log": (lines if rng.random() < 0.5 else passed).encode(),
        root / "campaign.json": (samples.campaign / "campaign.json").read_bytes(),
    }
    wrong = rng.choice(list(files))
    for path, data in files.items():
        path.write_bytes(damaged(rng, data) if path == wrong and path.suffix != ".json" else data)
    if wrong.suffix == ".json":
        _with_json(rng, wrong)
    return Job(["report", str(root), "--grade", rng.choice(("none", "none", "none", "fast"))])


def stepping(rng: Random, samples: Samples, folder: Path) -> Job:
    """Conditions, inputs and cases for `refemu step`."""
    return Job(commands.step(rng, rng.choice(samples.sets)))


def command_line(rng: Random, samples: Samples, folder: Path) -> Job:
    """Any words."""
    return Job(commands.line(rng, rng.choice(samples.sets)), rng.choice((b"", b"00 00\n", b"\xff" * 5000)))


READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        manifest,
        vectors,
        answer_npz,
        answer_hex,
        answer_testfloat,
        answer_csv,
        answer_jsonl,
        piped,
        scheme,
        gguf,
        gguf_vocabulary,
        safetensors,
        config_json,
        tokenizer_json,
        index_json,
        texts,
        ids,
        campaign,
        regression,
        stepping,
        command_line,
    )
}


def _copied(one: Set, folder: Path) -> Path:
    place = folder / one.folder.name
    place.mkdir()
    for name in ("manifest.json", "vectors.npz"):
        shutil.copy(one.folder / name, place / name)
    return place


def _sealed(told: Any, rng: Random) -> bytes:
    """A manifest with a right digest, as far as it has a canonical form."""
    try:
        return manifests.canonical(manifests.sealed(told) if rng.random() < 0.95 else told)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return _encoded(dumped(told))


def _encoded(words: str) -> bytes:
    return words.encode("utf-8", "surrogatepass")


def _on_set(rng: Random, one: Set, place: Path) -> Job:
    """Everything that reads a set."""
    case = f"{place}:{rng.choice((0, 0, 1, 3))}"
    return Job(
        rng.choice(
            (
                ["check", str(place)],
                ["check", str(place)],
                ["diff", str(one.folder), str(place)],
                ["diff", str(place), str(one.folder), "--explain"],
                ["diff", str(place), str(one.folder / "hex/gold.mem")],
                ["export", rng.choice(("csv", "jsonl", "testfloat")), str(place)],
                ["step", one.unit, "--case", case, "--json"],
                ["step", one.unit, "--case", case],
                ["diff", str(place), str(place)],
            )
        )
    )


def _diff(one: Set, path: Path, data: bytes) -> Job:
    path.write_bytes(data)
    return Job(["diff", str(one.folder), str(path), *(["--explain"] if len(data) % 4 == 0 else [])])


def _answer(rng: Random, samples: Samples, folder: Path, name: str) -> Job:
    one = rng.choice(samples.sets)
    data = one.answers[name]
    data = damaged(rng, data) if rng.random() < 0.4 else _encoded(retold(rng, data.decode()))
    return _diff(one, folder / name, data)


def _model_copied(rng: Random, samples: Samples, folder: Path) -> Path:
    return Path(shutil.copytree(samples.models[rng.choice(sorted(samples.models))], folder / "m"))


def _with_json(rng: Random, path: Path) -> Path:
    """The folder of a JSON file that was changed."""
    data = path.read_bytes()
    path.write_bytes(damaged(rng, data) if rng.random() < 0.15 else _encoded(dumped(swapped(rng, json.loads(data)))))
    return path.parent


def _model(rng: Random, path: Path) -> Job:
    """Everything that is read of a model, without running it; one in twenty is run."""
    if rng.random() < 0.05:
        return Job(["ppl", "--model", str(path), "--tokens", "4", "--win", "4"])

    def read() -> None:
        model = load(path)
        for name in model.config.shapes:
            model.tensor(name)
        ids = model.tokenizer.sentence("the thin", 8)
        model.tokenizer.decode(model.tokenizer.encode("it is 12") + ids)

    return Job(call=read)
