"""`refemu study olive` prints three tables, the other studies one, and the same in JSON."""

import json
from pathlib import Path

import pytest

from refemu.cli import main

WORDS = ["study", "olive", "--tokens", "24", "--win", "12"]


def test_tables_and_json_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0
    tables = capsys.readouterr().out

    assert (found["study"], found["model"], found["tokens"], found["win"]) == ("olive", "tiny", 24, 12)
    assert [row["kind"] for row in found["pairs"]] == [
        "q",
        "k",
        "v",
        "o",
        "gate",
        "up",
        "down",
        "all weights",
        "q.input",
        "o.input",
        "gate.input",
        "down.input",
        "all inputs",
    ]
    assert all(f"{100 * row['normal_normal']:.4f}" in tables for row in found["pairs"])
    assert all(f"{row['error']:.3f}" in tables for row in found["rounding_errors"])
    assert all(f"{row['value']:.4f}" in tables for row in found["losses"])


def test_an_encoder_is_studied_on_paragraphs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "olive", "--model", "tiny-encoder", "--tokens", "60", "--win", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert 40 < found["tokens"] <= 60
    assert [row["kind"] for row in found["pairs"]][-5:] == [
        "q.input",
        "o.input",
        "up.input",
        "down.input",
        "all inputs",
    ]
    assert [row["measure"] for row in found["losses"]] == ["1 - cosine"] * 4


def test_without_tokens_only_weights_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "olive", "--tokens", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (found["losses"], len(found["pairs"]), len(found["rounding_errors"])) == ([], 8, 8)


@pytest.fixture
def rated(tmp_path: Path) -> str:
    """Twelve sentences, good and bad."""
    lines = [f"{n}\t{(-1) ** n * (1 + n / 4)}\t{'Dull' if n % 2 else 'Fine'} film, {n} times." for n in range(12)]
    (tmp_path / "rated.txt").write_text("\n".join(lines))
    return str(tmp_path / "rated.txt")


def test_accuracy_is_one_table_with_its_columns_explained(rated: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "accuracy", "--model", "tiny-encoder", "--data", rated, "--sentences", "4"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    table = capsys.readouterr().out

    assert (found["study"], found["model"], found["data"]) == ("accuracy", "tiny-encoder", rated)
    assert (found["test"], found["training"], found["ridge"]) == (4, 8, 1.0)
    assert [row["name"] for row in found["rows"]][:4] == ["fp32", "fp16", "olive-8", "int8 without outliers"]
    for row in found["rows"]:
        shown = next(line.split() for line in table.splitlines() if line.startswith(f"{row['name']} "))
        assert shown[-3:] == [f"{100 * row['accuracy']:.1f}", f"{100 * row['agreement']:.1f}", f"{row['error']:.4f}"]
    assert "applied unchanged to the embeddings of every scheme" in table
    assert all(f"\n{column} " in table for column in ("probe", "as fp32", "error"))


def test_json_may_stand_before_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--json", "olive", "--tokens", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["study"] == "olive"


def test_accuracy_without_the_reviews_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path))

    assert main(["study", "accuracy", "--model", "tiny-encoder"]) == 2
    assert "is not here; run: refemu models fetch film-reviews" in capsys.readouterr().err
    assert main(["study", "accuracy"]) == 2
    assert "are not here; run: refemu models fetch all-minilm-l6-v2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["study", "harmony"], "invalid choice: 'harmony'", id="study"),
        pytest.param(["study", "olive", "--model", "tinny"], "did you mean 'tiny'", id="model"),
        pytest.param(["study", "olive", "--tokens", "1"], "at least 2 tokens are needed, got 1", id="one token"),
        pytest.param(["study", "olive", "--tokens", "-1"], "must be at least 0, got -1", id="tokens"),
        pytest.param(["study", "olive", "--text", "nowhere.txt"], "nowhere.txt", id="text"),
        pytest.param(["study", "acuracy"], "did you mean 'accuracy'", id="misspelt"),
        pytest.param(["study", "accuracy", "--tokens", "9"], "unrecognized arguments: --tokens", id="other option"),
        pytest.param(["study", "accuracy", "--model", "tiny", "--data", __file__], "line 1: number, rating", id="data"),
        pytest.param(["study", "accuracy", "--sentences", "0"], "must be at least 1, got 0", id="sentences"),
    ],
)
def test_refuses(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_kllm_is_a_ladder_of_perplexities(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "study",
        "kllm",
        "--tokens",
        "24",
        "--win",
        "12",
        "--calibration-tokens",
        "32",
        "--schemes",
        "fp16",
        "kllm-a4:quantizer=rtn",
        "kllm-a3",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    table = capsys.readouterr().out

    assert (found["study"], found["model"], found["tokens"], found["win"]) == ("kllm", "tiny", 24, 12)
    assert [row["scheme"] for row in found["rungs"]] == ["fp16", "kllm-a4:quantizer=rtn", "kllm-a3"]
    assert all(f"{row['perplexity']:.2f}" in table for row in found["rungs"])


def test_leankv_is_a_table_of_memory_and_perplexity(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "study",
        "leankv",
        "--model",
        "tiny",
        "--tokens",
        "24",
        "--win",
        "12",
        "--prefill",
        "8",
        "--schemes",
        "fp16",
        "leankv:k_vec=1,v_group=2,window=4,t_low=0.05,t_high=0.2",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    table = capsys.readouterr().out

    assert (found["study"], found["tokens"], found["win"], found["prefill"]) == ("leankv", 24, 12, 8)
    assert [row["scheme"].partition(":")[0] for row in found["rows"]] == ["fp16", "leankv"]
    assert all(f"{100 * row['payload']:.2f}" in table and f"{row['perplexity']:.3f}" in table for row in found["rows"])
    assert [len(row["windows"]) for row in found["rows"]] == [len(row["payloads"]) for row in found["rows"]] == [2, 2]
    assert found["rows"][0]["change"] is None
    change = found["rows"][1]["change"]
    assert change["scheme"] == "fp16" and f"{change['percent']:+.2f} ± {change['error']:.2f}" in table
    assert f"{100 * found['rows'][1]['payload_error']:.2f}" in table
    assert [row["layer"] for row in found["sparsity"]] == [0, 1, 2]
    assert all(
        0 < row["least"] <= row["mean"] <= row["most"] <= 1 and f"{100 * row['mean']:.1f}" in table
        for row in found["sparsity"]
    )


def test_harmonia_is_a_table_of_perplexities(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "study",
        "harmonia",
        "--tokens",
        "48",
        "--win",
        "24",
        "--prefill",
        "20",
        "--schemes",
        "fp16",
        "harmonia-kv8",
        "harmonia-kv4:act_mantissa=6,offline=false",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    table = capsys.readouterr().out

    assert (found["study"], found["tokens"], found["win"], found["prefill"]) == ("harmonia", 48, 24, 20)
    assert [row["scheme"] for row in found["points"]] == words[words.index("fp16") :]
    assert all(f"{row['perplexity']:.2f}" in table for row in found["points"])
    assert all(
        f"{min(row['windows']):.2f} to {max(row['windows']):.2f}" in table and len(row["windows"]) == 2
        for row in found["points"]
    )
    assert all(f"{row['error']:.2f}" in table for row in found["points"])
    changes = [change for row in found["points"] for change in row["changes"]]
    assert [change["scheme"] for change in changes] == ["fp16", "fp16", "harmonia-kv8"]
    assert all(f"{change['percent']:+.2f}" in table and f"{change['error']:.2f}" in table for change in changes)
