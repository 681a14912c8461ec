"""`refemu study`: tables, JSON, CSV, plots, default models and cached results."""

import csv
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from refemu import studies
from refemu.cli import main, study
from refemu.cli.arguments import parser
from refemu.studies import steps
from refemu.studies.output import document

STUDIES = Path(__file__).resolve().parent.parent.parent / "docs" / "studies.md"
RATE = 2.2e-11  #: seconds of a multiply-accumulate on the machine whose times that page has
OLIVE = ["study", "olive", "--model", "tiny", "--windows", "2", "--win", "12"]
KLLM = [
    *("study", "kllm", "--model", "tiny", "--windows", "2", "--win", "12", "--calibration-tokens", "32"),
    *("--schemes", "fp16", "kllm-a4:quantizer=rtn"),
]
HARMONIA = [
    *("study", "harmonia", "--model", "tiny", "--windows", "2", "--win", "24", "--prefill", "20"),
    *("--schemes", "fp16", "harmonia-kv8", "harmonia-kv4:act_mantissa=6,offline=false"),
]
LEANKV = [
    *("study", "leankv", "--model", "tiny", "--windows", "2", "--win", "12", "--prefill", "8"),
    *("--schemes", "fp16", "leankv:k_vec=1,v_group=2,window=4,t_low=0.05,t_high=0.2"),
]
MIX = [
    *("study", "mix", "--model", "tiny", "--windows", "2", "--win", "12", "--prefill", "8"),
    *("--schemes", "fp16+fp16", "olive-4:calibration_tokens=64+leankv-k8v4", "harmonia-kv8"),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own."""
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def found(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    whole: dict[str, Any] = json.loads(capsys.readouterr().out)
    return whole


def rows(whole: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (table,) = (table for table in whole["tables"] if table["name"] == name)
    listed: list[dict[str, Any]] = table["rows"]
    return listed


@pytest.mark.parametrize("words", [OLIVE, KLLM, HARMONIA, LEANKV, MIX], ids=lambda words: words[1])
def test_tables_and_json_name_the_untrained_model(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    whole = found(words, capsys)
    assert main(words) == 0
    text = capsys.readouterr().out

    assert (whole["study"], whole["schema"], whole["model"]["seeded"]) == (words[1], "refemu.study/1", True)
    assert whole["command"] == " ".join(["refemu", *words, "--json"])
    assert whole["text"]["windows"] == 2 and whole["text"]["tokens"] == 2 * whole["text"]["win"]
    document.check(whole)
    for table in whole["tables"]:
        assert table["title"] in text and table["rows"]
        for row in table["rows"]:
            if "perplexity" in row:
                assert f"{row['perplexity']:,.2f}" in text and f"{row['error']:,.2f}" in text
    assert all(
        "untrained random weights" in table["title"] for table in whole["tables"] if "perplexity" in table["title"]
    )


def test_second_run_prints_cached_results(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = found(OLIVE, capsys), found(OLIVE, capsys)

    assert (first["cached"], second["measured"]) == (0, 0) and first["measured"] == second["cached"] > 0
    assert first["tables"] == second["tables"]


def test_more_windows_reuse_cached_windows(capsys: pytest.CaptureFixture[str]) -> None:
    found([*OLIVE, "--only", "losses"], capsys)
    more = found([*OLIVE, "--only", "losses", "--windows", "3"], capsys)

    assert (more["measured"], more["cached"]) == (4, 8)  # one window of four schemes
    assert {row["windows"] for row in rows(more, "losses")} == {3}


def test_estimate_is_printed_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OLIVE, "--only", "weights"]) == 0
    assert "study olive of tiny (untrained random weights): 1 measurement, about " in capsys.readouterr().err
    assert main([*OLIVE, "--only", "weights"]) == 0
    assert "nothing to measure, 1 result cached" in capsys.readouterr().err


@pytest.mark.model
@pytest.mark.parametrize("paper", studies.NAMES)
def test_estimate_is_near_the_documented_time(paper: str, smollm2: Any) -> None:
    arguments = parser().parse_args(["study", paper])
    setting = study._setting(smollm2, arguments)
    experiments = importlib.import_module(f"refemu.studies.{paper}.experiments")
    listed = {step.name: step for step in experiments.steps(setting, experiments.PARTS)}
    (row,) = re.findall(rf"^\| `{paper}` \| (\d+) \| (\d+) s \|$", STUDIES.read_text(), re.MULTILINE)

    assert len(listed) == int(row[0])
    assert 2 / 3 < RATE * steps.estimate(list(listed.values()), setting.model) / int(row[1]) < 3 / 2


def test_interrupted_study_resumes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from refemu.models.scores import perplexity

    compute, count = perplexity.window_losses, [0]

    def stopped(*words: Any) -> Any:
        count[0] += 1
        if count[0] == 4:
            raise KeyboardInterrupt
        return compute(*words)

    monkeypatch.setattr(perplexity, "window_losses", stopped)
    assert main([*OLIVE, "--only", "losses"]) == 130
    assert "run the same command to resume" in capsys.readouterr().err
    whole = found([*OLIVE, "--only", "losses"], capsys)
    assert (whole["cached"], whole["measured"]) == (3, 5)


def test_csv_has_the_rows_of_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = found([*OLIVE, "--csv", str(tmp_path / "csv")], capsys)

    assert sorted(path.stem for path in (tmp_path / "csv").iterdir()) == sorted(t["name"] for t in whole["tables"])
    with (tmp_path / "csv" / "losses.csv").open() as file:
        read = list(csv.DictReader(file))
    assert [float(row["perplexity"]) for row in read] == [row["perplexity"] for row in rows(whole, "losses")]


@pytest.mark.parametrize("option", ["--csv", "-o"])
def test_csv_names_the_untrained_model(option: str, tmp_path: Path) -> None:
    assert main([*OLIVE, option, str(tmp_path / "out")]) == 0
    files = sorted((tmp_path / "out").glob("*.csv"))

    assert len(files) >= 4
    for path in files:
        with path.open() as file:
            assert {(row["model"], row["seeded"]) for row in csv.DictReader(file)} == {("tiny", "true")}, path


def test_out_folder_has_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*OLIVE, "-o", str(tmp_path / "kept")]
    assert main(words) == 0
    whole = json.loads((tmp_path / "kept" / "study.json").read_text())
    document.check(whole)

    figures = [figure["name"] for figure in whole["figures"]]
    names = {path.name for path in (tmp_path / "kept").iterdir()}
    assert names == {
        *("study.json", "tables.txt"),
        *(f"{table['name']}.csv" for table in whole["tables"]),
        *(f"{figure}.{form}" for figure in figures for form in ("svg", "png")),
    }
    assert figures == ["fig2", "table2", "fig3", "fig5", "table9"]
    assert whole["command"] == " ".join(["refemu", *words]) and whole["versions"]["numpy"]
    text = (tmp_path / "kept" / "tables.txt").read_text()
    assert whole["command"] in text and capsys.readouterr().out.splitlines()[0] in text


def test_plot_measures_only_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = found([*OLIVE, "--figure", "fig3", "--plot", str(tmp_path / "a.svg")], capsys)
    assert [figure["name"] for figure in whole["figures"]] == ["fig3"]
    assert [table["name"] for table in whole["tables"]] == ["losses"]
    again = found([*OLIVE, "--figure", "fig3", "--plot", str(tmp_path / "b.svg")], capsys)

    assert again["measured"] == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_encoder_is_studied_on_paragraphs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "olive", "--model", "tiny-encoder", "--tokens", "60", "--win", "20"]
    whole = found(words, capsys)

    assert 40 < whole["text"]["tokens"] <= 60 and whole["text"]["windows"] > 1
    assert [row["kind"] for row in rows(whole, "pairs")][-5:] == [
        *("q.input", "o.input", "up.input", "down.input", "all inputs"),
    ]
    assert all(row["texts"] == whole["text"]["windows"] for row in rows(whole, "losses"))


def test_without_tokens_only_weights_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    whole = found(["study", "olive", "--model", "tiny", "--tokens", "0"], capsys)

    assert [table["name"] for table in whole["tables"]] == ["pairs", "rounding_errors"]
    assert len(rows(whole, "pairs")) == 8


@pytest.fixture
def rated(tmp_path: Path) -> str:
    """Twelve sentences, good and bad."""
    lines = [f"{n}\t{(-1) ** n * (1 + n / 4)}\t{'Dull' if n % 2 else 'Fine'} film, {n} times." for n in range(12)]
    (tmp_path / "rated.txt").write_text("\n".join(lines))
    return str(tmp_path / "rated.txt")


def test_accuracy_is_one_table_with_its_columns_explained(rated: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "accuracy", "--model", "tiny-encoder", "--data", rated, "--sentences", "4"]
    whole = found(words, capsys)
    assert main(words) == 0
    table = capsys.readouterr().out

    assert [row["name"] for row in rows(whole, "accuracy")][:3] == ["fp32", "fp16", "olive-8"]
    assert "untrained random weights" in whole["tables"][0]["title"] and rated in whole["tables"][0]["title"]
    for row in rows(whole, "accuracy"):
        assert f"{row['accuracy']:.1f}" in table and f"{row['error']:.4f}" in table
    assert "applied to the embeddings of every scheme" in table
    assert found(words, capsys)["measured"] == 0


def test_json_option_may_precede_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--json", "olive", "--model", "tiny", "--tokens", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["study"] == "olive"


@pytest.mark.parametrize("name", ["olive", "kllm", "harmonia", "leankv", "mix", "ppl"])
def test_missing_default_model_names_fetch_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ppl"] if name == "ppl" else ["study", name]) == 2
    assert "smollm2-135m are not here; run: refemu models fetch smollm2-135m" in capsys.readouterr().err


def test_missing_reviews_name_fetch_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "accuracy", "--model", "tiny-encoder"]) == 2
    assert "is not here; run: refemu models fetch film-reviews" in capsys.readouterr().err
    assert main(["study", "accuracy"]) == 2
    assert "are not here; run: refemu models fetch all-minilm-l6-v2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["study", "harmony"], "unknown name 'harmony'; did you mean 'harmonia'? Known: ", id="study"),
        pytest.param(["study", "olive", "--model", "tinny"], "did you mean 'tiny'", id="model"),
        pytest.param([*OLIVE, "--tokens", "1"], "must have at least 2 tokens, got 1", id="one token"),
        pytest.param([*OLIVE, "--tokens", "-1"], "must be at least 0, got -1", id="tokens"),
        pytest.param([*OLIVE, "--windows", "0"], "must be at least 1, got 0", id="windows"),
        pytest.param([*OLIVE, "--text", "nowhere.txt"], "nowhere.txt", id="text"),
        pytest.param([*OLIVE, "--only", "weigths"], "only must be one of 'weights'", id="part"),
        pytest.param([*OLIVE, "--figure", "fig4"], "figure must be", id="figure"),
        pytest.param(
            [*OLIVE, "--only", "inputs,weights", "--figure", "fig3,fig5"],
            "--figure fig3,fig5 needs --only weights,losses, got inputs,weights",
            id="figure of another part",
        ),
        pytest.param([*OLIVE, "--plot", "a.pdf"], "must end in .svg or .png, got '.pdf'", id="plot"),
        pytest.param([*OLIVE, "--only", "inputs", "--plot", "a.svg"], "none of the parts", id="no figure"),
        pytest.param([*KLLM, "--plot", "a.svg"], "leave out --only, --figure and --plot", id="schemes"),
        pytest.param(["study", "kllm", "--model", "tiny-encoder"], "tiny-encoder is an encoder", id="encoder"),
        pytest.param(["study", "mix", "--model", "tiny-encoder"], "tiny-encoder is an encoder", id="mix, encoder"),
        pytest.param([*MIX, "--prefill", "0"], "must be at least 1, got 0", id="mix, no prompt"),
        pytest.param([*MIX, "fp16+oliv-4"], "did you mean", id="mix, misspelt"),
        pytest.param([*LEANKV, "olive-4+fp16"], "must be fp16, leankv* or mixes", id="mix without pages"),
        pytest.param(["study", "acuracy"], "did you mean 'accuracy'", id="misspelt"),
        pytest.param(["study", "accuracy", "--tokens", "9"], "unrecognized arguments: --tokens", id="other option"),
        pytest.param(
            ["study", "accuracy", "--model", "tiny", "--data", __file__], "line 1: must be number, rating", id="data"
        ),
        pytest.param(["study", "accuracy", "--sentences", "0"], "must be at least 1, got 0", id="sentences"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--csv", "-o", "--plot"])
@pytest.mark.parametrize("below", [False, True], ids=["file", "below a file"])
def test_unwritable_output_is_rejected_before_measuring(
    option: str, below: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "mine.svg"
    place.mkdir() if option == "--plot" and not below else place.write_text("mine")
    word = str(place / "new.svg" if below else place)
    assert main([*OLIVE, "--only", "weights", "--figure", "fig2", option, word]) == 2
    out, err = capsys.readouterr()

    assert out == "" and "measurements" not in err
    assert (
        f"study: {option} must be a {'file' if option == '--plot' else 'writable folder'}" in err and str(place) in err
    )


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder here in which nothing can be made")
@pytest.mark.parametrize(("option", "word"), [("--csv", "/proc/x"), ("-o", "/proc/x"), ("--plot", "/proc/a.svg")])
def test_unwritable_folder_is_rejected_before_measuring(
    option: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*OLIVE, "--only", "weights", "--figure", "fig2", option, word]) == 2
    out, err = capsys.readouterr()

    assert out == "" and "measurements" not in err and f"writable folder, got {word}" in err


def test_leankv_and_harmonia_have_their_columns(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = rows(found(LEANKV, capsys), "rows")
    assert (first["codes"], first["change"]) == (100, None) and second["codes"] < 100
    assert second["change_error"] >= 0 and second["windows"] == 2
    points = rows(found(HARMONIA, capsys), "schemes")
    assert [row["over"] for row in points] == [None, "fp16", "fp16"]


def test_mixes_have_kv_bits_and_are_cached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = found([*MIX, "-o", str(tmp_path / "kept"), "--csv", str(tmp_path / "csv")], capsys)
    listed = rows(whole, "schemes")

    assert [row["kv_bits"] for row in listed[:2]] == [16, 10] and 9 < listed[2]["kv_bits"] < 10
    assert [row["over"] for row in listed] == [None, "fp16+fp16", "fp16+fp16"]
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"study.json", "tables.txt", "schemes.csv"}
    with (tmp_path / "csv" / "schemes.csv").open() as file:
        assert [float(row["kv_bits"]) for row in csv.DictReader(file)] == [row["kv_bits"] for row in listed]
    assert found(MIX, capsys)["measured"] == 0


@pytest.mark.parametrize("words", [KLLM, HARMONIA], ids=lambda words: words[1])
def test_other_studies_take_mixes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    whole = found([*words, "fp16+fp16"], capsys)

    first, *_, last = rows(whole, "schemes")
    assert (last["scheme"], last["perplexity"], last["change"]) == ("fp16+fp16", first["perplexity"], 0)


def test_scheme_without_effect_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    source = "from dataclasses import dataclass\nfrom refemu import models\n@dataclass(frozen=True)\n"
    Path("own.py").write_text(f"{source}class Null(models.LinearScheme):\n    factor: float = 1.0\n")
    cut = ["--windows", "2", "--win", "32", "--prefill", "16"]
    assert main(["study", "mix", "--model", "tiny", *cut, "--schemes", "fp16", "own.py:Null", "harmonia-kv8"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "note:" in line]

    assert notes == ["refemu: note: own.py:Null has the loss of fp16 in all bits in every window: it changed nothing"]
