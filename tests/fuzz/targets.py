"""Readers for coverage-guided fuzzing: a target takes bytes and a folder, and may raise what a bad input may raise.

`guided.py` searches for bytes that reach new lines of a target's modules; `test_corpus.py` runs the corpus.
"""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from refemu import checked_json, formats, golden, units
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import condition
from refemu.formats import config_text
from refemu.golden.campaign import folder as campaign_folder
from refemu.golden.compare import answer_files, pipe
from refemu.golden.files import exchange, npz, sets
from refemu.golden.files import manifest as manifests
from refemu.golden.report import campaigns, logs
from refemu.golden.rtl import filelist, mapping
from refemu.golden.serve import predictor, server
from refemu.models import gguf_tokenizer, load, schemes, text, token_ids, tokenizer
from refemu.models.prepared import items
from refemu.models.schemes import offline_file
from refemu.models.schemes.leankv.serving import trace
from refemu.models.weights.files import GgufFile, open_weights
from refemu.studies import accuracy
from tests.fuzz import seeds

UNIT, CONFIG = "concat", "a4"
REJECTED = (Refused, RefusedType, OSError)  #: what a reader may raise for a bad input
LARGE = 1 << 20  #: elements of a tensor that no target decodes

Target = Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Entry:
    """A target and the modules whose lines guide the search."""

    run: Target
    modules: tuple[str, ...]


TARGETS: dict[str, Entry] = {}


def _target(*modules: str) -> Callable[[Target], Target]:
    def add(run: Target) -> Target:
        TARGETS[run.__name__] = Entry(run, modules)
        return run

    return add


def attempt(name: str, data: bytes, folder: Path) -> str:
    """What is wrong with the end of a target; "" for a value, and for an error of one line about the input."""
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    try:
        TARGETS[name].run(data, folder)
    except REJECTED as refusal:
        said = str(refusal)
        return f"{type(refusal).__name__}: {said}" if "more memory than" in said or len(said.splitlines()) > 1 else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@cache
def _golden() -> sets.Golden:
    return golden.load(seeds.one().folder)


@_target("refemu.golden.files.manifest", "refemu.golden.files.sets")
def manifest(data: bytes, folder: Path) -> None:
    """A manifest, sealed if it is a JSON object, and the arrays that it describes."""
    try:
        told = json.loads(data)
        data = manifests.canonical(manifests.sealed(told))
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    read = manifests.parse(data, "manifest")
    sets.arrays_of(read, (seeds.one().folder / sets.VECTORS).read_bytes(), "vectors")


@_target("refemu.golden.files.npz", "refemu.arith.archive", "zipfile")
def container(data: bytes, folder: Path) -> None:
    """An .npz, its headers, and the contents of small arrays."""
    archive = npz.Archive(data, "npz")
    for name in archive.names:
        shape = archive.header(name).shape
        if _size(shape) <= LARGE:
            archive.array(name)


@_target("refemu.golden.files.exchange")
def answer_jsonl(data: bytes, folder: Path) -> None:
    """Answers as JSON Lines."""
    exchange.read(data, "jsonl", _golden(), "answer")


@_target("refemu.golden.files.exchange")
def answer_csv(data: bytes, folder: Path) -> None:
    """Answers as CSV."""
    exchange.read(data, "csv", _golden(), "answer")


@_target("refemu.golden.files.exchange")
def answer_testfloat(data: bytes, folder: Path) -> None:
    """Answers in TestFloat's lines."""
    exchange.read(data, "testfloat", _golden(), "answer")


@_target("refemu.golden.compare.answer_files", "refemu.golden.files.hexfile")
def answer_file(data: bytes, folder: Path) -> None:
    """A file of answers whose form the reader finds out."""
    answer_files.read(_written(folder / "answer.mem", data), _golden())


@_target("refemu.golden.compare.pipe", "refemu.golden.files.hexfile")
def piped(data: bytes, folder: Path) -> None:
    """Lines of a device on standard input."""
    pipe.check(units.find(UNIT), CONFIG, io.BytesIO(data), None, False, False)


@_target("refemu.golden.rtl.mapping")
def port_map(data: bytes, folder: Path) -> None:
    """A port map."""
    unit = units.find(UNIT)
    mapping.read(_written(folder / "map.json", data), unit.name, unit.ports(unit.config(CONFIG)))


@_target("refemu.golden.rtl.filelist")
def file_list(data: bytes, folder: Path) -> None:
    """A list of Verilog sources."""
    path = _written(folder / "a.f", data)
    filelist.Sources.of_environment("icarus", {"FILELIST": str(path), "SHELL_V": "shell.v"})


@_target("refemu.golden.report.logs")
def bench_log(data: bytes, folder: Path) -> None:
    """A log of a testbench."""
    logs.read(_written(folder / "set.log", data))


@_target("refemu.golden.report.campaigns", "refemu.golden.campaign.folder", "refemu.golden.campaign.plan")
def campaign(data: bytes, folder: Path) -> None:
    """The request of a campaign, read for a report and to resume."""
    _written(folder / "campaign.json", data)
    campaigns.read(folder, "campaign")
    with campaign_folder.held(folder, json.loads(seeds.REQUEST)["request"]):
        pass


@_target("refemu.models.schemes.leankv.serving.trace")
def requests(data: bytes, folder: Path) -> None:
    """A trace of requests."""
    trace.read(_written(folder / "trace.jsonl", data))


@_target("refemu.models.schemes.scheme_text", "refemu.formats.config_text")
def scheme(data: bytes, folder: Path) -> None:
    """A scheme as text: what it parses to has a text that parses to the same."""
    parsed = schemes.parse(_text(data))
    assert schemes.parse(schemes.text(parsed)) == parsed


@_target("refemu.formats.config_text", "refemu.units.parameters")
def unit_config(data: bytes, folder: Path) -> None:
    """A unit with parameters, and a format."""
    words = _text(data)
    try:
        units.choose(words)
    except REJECTED:
        config_text.read(words, formats.Ovp | tuple[int, ...] | None, "format")


@_target("refemu.cli.condition")
def break_condition(data: bytes, folder: Path) -> None:
    """A condition of `step --break`, and its value in a state."""
    condition.parse(_text(data)).holds(seeds.state())


@_target("refemu.models.weights.files", "refemu.models.weights.gguf_decoders", "gguf.gguf_reader")
def gguf(data: bytes, folder: Path) -> None:
    """A GGUF file: its metadata, its small tensors, and a model."""
    path = _written(folder / "m.gguf", data)
    file = GgufFile(path)
    for key in file.keys:
        file.metadata(key)
    _decoded(file)
    load(path)


@_target("refemu.models.gguf_tokenizer", "refemu.models.tokenizer")
def gguf_vocabulary(data: bytes, folder: Path) -> None:
    """The tokenizer of a GGUF file."""
    _used(gguf_tokenizer.from_gguf(GgufFile(_written(folder / "m.gguf", data))))


@_target("refemu.models.tokenizer")
def tokenizer_json(data: bytes, folder: Path) -> None:
    """A tokenizer of the library."""
    _used(tokenizer.from_json(_written(folder / "tokenizer.json", data)))


@_target("refemu.models.weights.files")
def safetensors(data: bytes, folder: Path) -> None:
    """Weights in safetensors."""
    _decoded(open_weights(_written(folder / "model.safetensors", data)))


@_target("refemu.models.weights.hf_decoders", "refemu.models.weights.checkpoint", "refemu.models.config")
def config_json(data: bytes, folder: Path) -> None:
    """The description of a model."""
    place = seeds.model(folder)
    _written(place / "config.json", data)
    load(place)


@_target("refemu.models.weights.shards", "refemu.models.weights.checkpoint")
def index_json(data: bytes, folder: Path) -> None:
    """The index of several weight files."""
    place = seeds.model(folder)
    (place / "model.safetensors").rename(place / "part.safetensors")
    _written(place / "model.safetensors.index.json", data)
    load(place)


@_target("refemu.models.token_ids")
def ids(data: bytes, folder: Path) -> None:
    """Token ids, as text or as an array."""
    token_ids.read(_written(folder / ("ids.npy" if data.startswith(b"\x93NUMPY") else "ids.txt"), data), 256)


@_target("refemu.models.text", "refemu.studies.accuracy")
def texts(data: bytes, folder: Path) -> None:
    """A text, and rated sentences."""
    path = _written(folder / "t.txt", data)
    text.read(path)
    accuracy.read(path)


@_target("refemu.checked_json", "refemu.models.prepared.items")
def cached(data: bytes, folder: Path) -> None:
    """A file of a cache: a reader gets an object that can have been written, or nothing."""
    document = checked_json.load(_written(folder / "item.json", data))
    if document is not None:  # not seeds.DESCRIPTION alone: the search sees seals compared, and learns to seal
        assert checked_json.load(_written(folder / "again.json", checked_json.dump(document))) == document
    items.read(folder)


@_target("refemu.models.schemes.offline_file", "refemu.arith.archive")
def offline(data: bytes, folder: Path) -> None:
    """Values that a scheme computed before a run."""
    offline_file.read(data, folder / "f.npz", "codebooks", lambda archive: [archive.header(n) for n in archive.names])


@_target("refemu.golden.serve.server", "refemu.golden.serve.predictor")
def frames(data: bytes, folder: Path) -> None:
    """Requests of `refemu serve`, of which a reply is read before the next: a length of two bytes before each."""
    served = predictor.Predictor(units.find(UNIT), CONFIG)
    for number, request in enumerate(seeds.split(data)[:8]):
        asked, answers = _written(folder / f"{number}.in", request), folder / f"{number}.out"
        with asked.open("rb") as source, answers.open("wb") as sink:
            try:
                server.serve(served, source.fileno(), sink.fileno())
            finally:
                _require_replies(answers.read_bytes())


def _require_replies(data: bytes) -> None:
    from tests.fuzz.readers import _require_replies as require

    require(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape").replace("\0", "")


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for axis in shape:
        size *= axis
    return size


def _decoded(file: Any) -> None:
    for name in file.names:
        if _size(file.shape(name)) <= LARGE:
            file.tensor(name)


def _used(made: Any) -> None:
    made.decode(made.encode("it is 12 [SEP] <s>\u4e94") + made.sentence("the thin", 8))
