"""Every command with --json has a schema, its output is valid, and every part of a schema has an example."""

import argparse
import io
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from refemu.cli import main, schema
from refemu.cli.arguments import parser
from tests.cli.help import standins
from tests.cli.help.parsers import parsers

SET = "vec/ovp_decoder-int4"
#: schema, number of the form in it, counted from 0, and command
DOCUMENTS = """
version   0  --version
list      0  list
list      0  list decisions
show      0  show INT4
show      0  show OVP_INT4
show      1  show INT4 5
show      2  show K8V4
show      3  show page K8V4
show      4  show page K8V4 --byte 3
generate  0  generate -o new --unit ovp_decoder:int4 --kinds paper
generate  1  generate -o new --unit outlier_decoder:e2m1 --minimal
generate  2  generate -o new --unit outlier_decoder:e2m1 --cases 100
check     0  check vec
check     1  check --stdin --unit ovp_decoder:int4 --rows 3
check     1  check --stdin --unit ovp_decoder:int4 --rows 3 --explain
diff      0  diff vec/ovp_decoder-int4 vec/ovp_decoder-int4
diff      0  diff vec/ovp_decoder-int4 dut.npz
diff      0  diff vec/ovp_decoder-int4 dut.npz --explain
diff      1  diff vec/ovp_decoder-int4 before/ovp_decoder-int4 --cases
explain   0  explain ovp_decoder
explain   0  explain orizuru:n=16,k=2
explain   0  explain ovp_decoder:int4 --set vec/ovp_decoder-int4
explain   1  explain D-olive-19
explain   1  explain D-olive-19 --set vec/ovp_decoder-int4
explain   1  show D-arith-13
explain   2  explain harmonia-kv4
explain   3  explain OVP_INT4
explain   3  explain K8V4
explain   4  explain harmonia-kv4.prefill_window
explain   4  explain orizuru.x
explain   5  explain victim
explain   6  explain orizuru.cycles
grade     0  grade vec/ovp_decoder-int4 --class bits,reset,decisions
grade     0  grade stimulus.npz --unit ovp_decoder:int4 --class lanes,order
prove     0  prove ovp_decoder ovp_decoder.v
step      0  step ovp_decoder
step      0  step orizuru
step      1  step orizuru --html o.html
view      0  view vec/ovp_decoder-int4 --html v.html
view      0  view vec/ovp_decoder-int4 --html v.html --answers dut.npz
machine   0  machine --tokens 4
cost      0  cost --tokens 4
simulate  0  simulate --shape llama-3.2-1b --high-share 0.3 --rate 9 --requests 2 --generate 3
ppl       0  ppl --model tiny --win 32 --windows 2
ppl       0  ppl --model tiny --win 32 --windows 1
ppl       0  ppl --model tiny --win 32 --windows 1 --over harmonia-kv8
generate-text 0  generate-text --model tiny --tokens 4
study     0  study olive --model tiny --tokens 0 --only weights
models    1  models prepared
models    2  models check
models    3  models prune
list      0  models list
new-unit  0  new-unit my_block
"""
CASES = [(*line.split()[:2], line.split(maxsplit=2)[2]) for line in DOCUMENTS.strip().splitlines()]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("files")
    standins.write(folder)
    return folder


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in files.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((files / "answers.txt").read_bytes())))


def variants(form: str) -> list[Any]:
    """A validator for each alternative of a schema."""
    whole = schema.schema(form)
    parts = whole.get("oneOf", [whole])
    return [fastjsonschema.compile({**part, "definitions": whole.get("definitions", {})}) for part in parts]


def is_valid(validator: Any, document: Any) -> bool:
    try:
        validator(document)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


@pytest.mark.parametrize(("form", "number", "words"), CASES, ids=[words for _, _, words in CASES])
def test_output_fits_its_schema(
    form: str, number: str, words: str, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    if form == "prove":
        pytest.importorskip("bitwuzla")
        if shutil.which("yosys") is None:
            pytest.skip("yosys is not installed; run: make programs")
    main([*shlex.split(words), "--json"])
    document = json.loads(capsys.readouterr().out)
    forms = variants(form)

    assert [at for at, each in enumerate(forms) if is_valid(each, document)] == [int(number)]
    assert not is_valid(forms[int(number)], {**document, "more": 1})
    assert not is_valid(forms[int(number)], {**document, "schema": f"refemu.{form}/2"})


@pytest.mark.parametrize("words", ["study olive --model tiny --tokens 0 --only weights", "list models", "--version"])
def test_json_option_may_precede_the_command(words: str, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", *words.split()]) == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("refemu.")


def test_every_schema_has_an_example() -> None:
    """Other tests validate `report`, suites and manifests; downloads need a network."""
    elsewhere = {("models", 0), ("report", 0), ("suite", 0), ("vectors", 0)}
    met = {(form, int(number)) for form, number, _ in CASES} | elsewhere
    assert {(form, at) for form in schema.names() for at in range(len(variants(form)))} == met


def test_every_command_with_json_has_a_schema() -> None:
    """Commands without a schema reject --json before and after the command."""
    with_json = {
        each.prog.split()[1] for each in parsers(parser()) if " " in each.prog and "--json" in str(options(each))
    }
    assert with_json == set(schema.names()) - {"suite", "version", "vectors"}


def options(of: argparse.ArgumentParser) -> list[str]:
    return [word for action in of._actions for word in action.option_strings]


def test_fetch_and_remove_fit_the_schema() -> None:
    validator = variants("models")[0]
    validator({"schema": "refemu.models/1", "model": "m", "state": "ready", "path": "/a"})
    validator({"schema": "refemu.models/1", "model": "m", "state": "removed", "path": None})
    assert not is_valid(validator, {"schema": "refemu.models/1", "model": "m", "state": "gone", "path": None})


@pytest.mark.parametrize("words", ["export csv vec/ovp_decoder-int4", "serve ovp_decoder", "schema list"])
def test_commands_without_json_reject_the_option(words: str, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--json"]) == 2
    assert main(["--json", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "unrecognized arguments: --json" in err and "has no --json; `refemu schema` lists" in err


def test_schema_prints_one_or_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "diff"]) == 0
    assert json.loads(capsys.readouterr().out) == schema.schema("diff")
    assert main(["schema"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[3:-1]]
    assert listed == schema.names()
    assert main(["schema", "dif"]) == 2
    assert "did you mean 'diff'" in capsys.readouterr().err
