"""One damaged input for each reader: a function takes a seeded generator and samples, and returns what to run.

A job is words of the command line with what comes through standard input, or a call of the library.
"""

import functools
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from refemu import units
from refemu.cli import unit_rows
from refemu.golden.files import manifest as manifests
from refemu.golden.files import npz
from refemu.golden.rtl import filelist as filelists
from refemu.golden.rtl import mapping
from refemu.golden.serve import predictor, server
from refemu.home import cache_folder
from refemu.models import load, schemes, text, token_ids
from refemu.models.gguf_tokenizer import SPLITTINGS, from_gguf
from refemu.models.prepared import items, prepared_cache
from refemu.models.weights import digests
from refemu.models.weights.files import GgufFile
from refemu.studies import accuracy, results
from tests.fuzz import archives, commands, plausible
from tests.fuzz.mutate import damaged, dumped, retold, swapped
from tests.fuzz.samples import Samples, Set
from tests.models import toy_vocabularies


@dataclass(frozen=True)
class Job:
    """Work on a damaged input: words of a command, or a call."""

    words: list[str] | None = None
    stdin: bytes = b""
    call: Callable[[], Any] | None = None


Reader = Callable[[Random, Samples, Path], Job]


def manifest(rng: Random, samples: Samples, folder: Path) -> Job:
    """A manifest with changed values, mostly with a correct digest, or with damaged bytes."""
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
    """Arrays that the manifest does not list although their digests are right; or a damaged container."""
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
    """An answer with a wrong container, header or shape."""
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
    """Words that are invalid, too few or too long."""
    return _answer(rng, samples, folder, "gold.mem")


def answer_testfloat(rng: Random, samples: Samples, folder: Path) -> Job:
    """An answer in lines of TestFloat, damaged."""
    return _answer(rng, samples, folder, "a.testfloat")


def answer_csv(rng: Random, samples: Samples, folder: Path) -> Job:
    """An answer in CSV with a damaged header, column or cell."""
    return _answer(rng, samples, folder, "a.csv")


def answer_jsonl(rng: Random, samples: Samples, folder: Path) -> Job:
    """Objects of other types, and lines that are not JSON."""
    one = rng.choice(samples.sets)
    lines = one.answers["a.jsonl"].decode().splitlines()
    at = rng.randrange(len(lines))
    if rng.random() < 0.3:
        return _answer(rng, samples, folder, "a.jsonl")
    lines[at] = dumped(swapped(rng, json.loads(lines[at])))
    return _diff(one, folder / "a.jsonl", _encoded("\n".join(lines)))


def piped(rng: Random, samples: Samples, folder: Path) -> Job:
    """Lines from a broken device."""
    one = rng.choice(samples.sets)
    data = b"".join(one.piped)
    config = one.folder.name.partition("-")[2]
    data = damaged(rng, data) if rng.random() < 0.4 else _encoded(retold(rng, data.decode()))
    return Job(["check", "--stdin", "--unit", one.unit, "--config", config], data)


def scheme(rng: Random, samples: Samples, folder: Path) -> Job:
    """A scheme's text with changed fields and values, parsed and formatted."""
    return Job(call=lambda: schemes.text(schemes.parse(commands.scheme(rng))))


def gguf(rng: Random, samples: Samples, folder: Path) -> Job:
    """A header, usually wrong, and weights after it."""
    path = folder / "m.gguf"
    path.write_bytes(damaged(rng, samples.gguf.read_bytes(), rng.choice((64, 1024, 1 << 14, None))))
    return _model(rng, path)


def gguf_vocabulary(rng: Random, samples: Samples, folder: Path) -> Job:
    """Tokenizers of every kind in a file of no tensors, with wrong tokens, scores and types."""
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
    """A changed header with a right or a wrong length, or damaged bytes."""
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
    """Invalid sizes."""
    return _model(rng, _with_json(rng, _model_copied(rng, samples, folder) / "config.json"))


def tokenizer_json(rng: Random, samples: Samples, folder: Path) -> Job:
    """A tokenizer, known to the library or not."""
    return _model(rng, _with_json(rng, _model_copied(rng, samples, folder) / "tokenizer.json"))


def index_json(rng: Random, samples: Samples, folder: Path) -> Job:
    """Missing files and invalid names."""
    shutil.copytree(samples.shards, folder / "m")
    return _model(rng, _with_json(rng, folder / "m/model.safetensors.index.json"))


def texts(rng: Random, samples: Samples, folder: Path) -> Job:
    """A text, or rated sentences, in bytes other than UTF-8 or in a wrong form."""
    path = folder / "t.txt"
    lines = "1\t0.5\ta good film\n2\t-1.25\tan awful film\n"
    path.write_bytes(damaged(rng, lines.encode()) if rng.random() < 0.5 else _encoded(retold(rng, lines, "\t\n ")))
    if rng.random() < 0.1:
        return Job(
            ["study", "accuracy", "--model", "tiny", "--data", str(path)]
        )  # a decoder: an error after it is read
    return Job(call=lambda: (accuracy.read if rng.random() < 0.7 else text.read)(path))


def ids(rng: Random, samples: Samples, folder: Path) -> Job:
    """Token ids in text or in an .npy, damaged or in a wrong form."""
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
    """A campaign to resume whose request differs or whose sets are damaged."""
    place = Path(shutil.copytree(samples.campaign, folder / "c"))
    if rng.random() < 0.7:
        _with_json(rng, place / "campaign.json")
    else:
        path = rng.choice(sorted(path for path in place.rglob("*") if path.is_file()))
        path.write_bytes(damaged(rng, path.read_bytes()))
    return Job(["generate", "-o", str(place), "--unit", "concat", "--cases", rng.choice(("64", "64", "65"))])


def regression(rng: Random, samples: Samples, folder: Path) -> Job:
    """A folder for `refemu report` with a damaged set, answer, log of a bench or request of a campaign."""
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
    """Any words on the command line."""
    return Job(commands.line(rng, rng.choice(samples.sets)), rng.choice((b"", b"00 00\n", b"\xff" * 5000)))


def own_json(rng: Random, samples: Samples, folder: Path) -> Job:
    """A damaged file of a cache: a reader gets what was written, or nothing."""
    path, state = folder / "known.json", "of the sources"
    value: Any = rng.choice(({"nll": 6.07, "tokens": [1, 2]}, 2.5, [["a", 1], ["b", 2.5]], []))
    memory, stamp = {"path": str(path), "sha256": "ab", "stamp": [1, 2, 3]}, digests.Stamp(1, 2, 3)
    measurements = results.ResultStore("olive", folder)
    depends = {"model": "tiny", "seed": 1}
    writes: dict[str, tuple[Path, Callable[[], object], Callable[[], object], object]] = {
        "digest": (
            path,
            lambda: digests._remember(path, dict(memory)),
            lambda: digests._recall(path, path, stamp),
            "ab",
        ),
        "list": (path, lambda: unit_rows._remember(path, state, value), lambda: unit_rows._recall(path, state), value),
        "measured": (
            measurements.path(depends),
            lambda: measurements.put(depends, value),
            lambda: measurements.get(depends),
            value,
        ),
    }
    place, write, read, wanted = writes[rng.choice(sorted(writes))]
    write()
    _replaced(rng, place)

    def recall() -> None:
        answer = read()
        assert answer is None or answer == wanted, answer

    return Job(call=recall)


def prepared(rng: Random, samples: Samples, folder: Path) -> Job:
    """A prepared model with a damaged file: listed, checked, read and pruned."""
    root = cache_folder() / prepared_cache.FOLDER
    shutil.rmtree(root, ignore_errors=True)
    item, weights = root / "toy/blk.0", np.arange(20000, dtype=np.float32)
    description = {"model": "toy", "recipe": "r", "version": items.VERSION, "patterns": ["home.py"], "sources": "0"}
    description["sources"] = prepared_cache.sources_digest(("home.py",))
    prepared_cache._open(item.parent, description, 0)
    items.write(item, {"q": weights, "small": weights[:3]})
    _replaced(
        rng,
        rng.choice(
            (item.parent / prepared_cache.DESCRIPTION, *(item / name for name in ("item.json", "q.npy", "small.npy")))
        ),
    )
    if rng.random() < 0.7:
        words = rng.choice((["prepared"], ["check"], ["prune"], ["prune", "--damaged"], ["prune", "toy"]))
        return Job(["models", *words])

    def read() -> None:
        arrays = items.read(item) or {"q": weights, "small": weights[:3]}
        assert np.array_equal(arrays["q"], weights) and np.array_equal(arrays["small"], weights[:3])

    return Job(call=read)


def port_map(rng: Random, samples: Samples, folder: Path) -> Job:
    """A port map with changed keys, names and expressions, or damaged bytes."""
    one = rng.choice(samples.sets)
    unit = units.find(one.unit)
    ports = unit.ports(unit.config(one.folder.name.partition("-")[2]))
    document = {
        "top": "core",
        "parameters": {"WIDTH": 8, "KIND": "2'b01"},
        "clock": "clk",
        "reset": {"port": "rst_n", "active": "low"},
        "handshake": {name: f"s_{name}" for name in mapping.HANDSHAKE},
        "inputs": {f"i_{port.name}": port.name for port in ports.inputs},
        "outputs": {port.name: f"o_{port.name}[{port.bits * port.count - 1}:0]" for port in ports.outputs},
        "open": ["debug"],
        "unused": [],
        "registers": {port.name: f"core.r_{port.name}" for port in ports.state[:2]},
        "about": "a core",
    }
    path = folder / "map.json"
    path.write_text(json.dumps(document))
    mapping.read(path, unit.name, ports)
    _with_json(rng, path)
    if rng.random() < 0.2:
        return Job(["export", "shell", str(one.folder), "-o", str(folder / "made"), "--map", str(path)])
    return Job(call=lambda: mapping.read(path, unit.name, ports))


def filelist(rng: Random, samples: Samples, folder: Path) -> Job:
    """A file list, and another that it names."""
    lines = (
        "# sources\n+incdir+a/inc+$ROOT/inc // headers\n-f b.f\n+define+WIDE+N=3\ntop.sv\n-Iother -DFAST=1\n-Wno-x\n"
    )
    for name in ("a.f", "b.f"):
        text_ = lines.replace("b.f", rng.choice(("b.f", "a.f", "a.f -f b.f", "."))) if name == "b.f" else lines
        path = folder / name
        path.write_bytes(damaged(rng, text_.encode()) if rng.random() < 0.3 else _encoded(retold(rng, text_, " \n+-")))
    return Job(call=lambda: filelists.Sources.of_environment("icarus", {"FILELIST": "a.f", "SHELL_V": "shell.v"}))


def frames(rng: Random, samples: Samples, folder: Path) -> Job:
    """Requests of `refemu serve`, each read from a file: every reply is a complete frame of one line."""
    one = rng.choice(samples.sets)
    served = _served(one.unit, one.folder.name.partition("-")[2])
    rows = rng.randbytes(served.layout_in.bytes * rng.choice((1, 1, 2, 5)))
    requests = []
    for _ in range(3):
        kind = rng.choice((server.STEP, server.RUN, server.RUN, server.RESET, server.CLOSE))
        payload = b"" if kind > server.RUN else rows[: served.layout_in.bytes] if kind == server.STEP else rows
        frame = server.HEAD.pack(kind, len(payload)) + payload
        requests.append(damaged(rng, frame, rng.choice((server.HEAD.size, None))) if rng.random() < 0.7 else frame)

    def serve() -> None:
        for number, request in enumerate(requests):
            asked, answers = folder / f"{number}.in", folder / f"{number}.out"
            asked.write_bytes(request)
            try:
                with asked.open("rb") as source, answers.open("wb") as sink:
                    server.serve(served, source.fileno(), sink.fileno())
            finally:
                _require_replies(answers.read_bytes())

    return Job(call=serve)


def _require_replies(data: bytes) -> None:
    """Require a hello, then complete frames: answers, or errors of one line."""
    *_, size = server.HELLO.unpack_from(data)
    data = data[server.HELLO.size + size :]
    while data:
        status, size = server.HEAD.unpack_from(data)
        payload, data = data[server.HEAD.size :][:size], data[server.HEAD.size + size :]
        assert len(payload) == size and status in (server.OK, server.ERROR)
        assert status == server.OK or (payload.strip() and b"\n" not in payload), payload


@functools.cache
def _served(unit: str, config: str) -> predictor.Predictor:
    return predictor.Predictor(units.find(unit), config)


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
        own_json,
        prepared,
        port_map,
        filelist,
        frames,
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
    """A manifest with a right digest, if it has a canonical form."""
    try:
        return manifests.canonical(manifests.sealed(told) if rng.random() < 0.95 else told)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return _encoded(dumped(told))


def _encoded(words: str) -> bytes:
    return words.encode("utf-8", "surrogatepass")


def _on_set(rng: Random, one: Set, place: Path) -> Job:
    """Run everything that reads a set."""
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


def _replaced(rng: Random, path: Path) -> None:
    """Damage a file, or put a folder or a pipe in its place; JSON stays JSON most often."""
    data, how = path.read_bytes(), rng.random()
    if how < 0.15:
        path.unlink()
        rng.choice((path.mkdir, lambda: os.mkfifo(path)))()
    elif path.suffix == ".json":
        _with_json(rng, path)
    else:
        path.write_bytes(damaged(rng, data, rng.choice((128, None))))


def _model(rng: Random, path: Path) -> Job:
    """Read a model completely; run one in twenty."""
    if rng.random() < 0.05:
        return Job(["ppl", "--model", str(path), "--tokens", "4", "--win", "4"])

    def read() -> None:
        model = load(path)
        for name in model.config.shapes:
            model.tensor(name)
        ids = model.tokenizer.sentence("the thin", 8)
        model.tokenizer.decode(model.tokenizer.encode("it is 12") + ids)

    return Job(call=read)
