"""Model `refemu` of lm-evaluation-harness against its Hugging Face backend. Models are untrained, tasks are local."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from tests.conformance.conftest import absent
from tests.conformance.family_numbers import SECOND
from tests.conformance.hugging_face import library, make
from tests.models import toy_decoder

pytestmark = pytest.mark.filterwarnings("ignore")  # of the harness and its libraries


@pytest.fixture(autouse=True)
def harness() -> Any:
    """The installed harness; its absence skips a test, and fails it in CI."""
    try:
        return importlib.import_module("lm_eval")
    except ImportError:
        absent("lm_eval is not installed: pip install -e '.[lm-eval]'")


QUESTIONS = [f"{name} walked along the sea and found" for name in ("Anne", "Sir Walter", "A captain", "No one", "Mary")]
QUESTIONS += [f"In the year {year} the house was" for year in range(1810, 1815)]
ANSWERS = [" a ship", " nothing at all", " let"]


@pytest.fixture
def adapter() -> Iterator[Any]:
    from refemu.harness.adapter import RefemuLM

    yield RefemuLM(model="tiny", scheme="leankv-k8v4")


def request(kind: str, *arguments: Any) -> Any:
    from lm_eval.api.instance import Instance

    return Instance(kind, {}, arguments, 0)


def test_loglikelihood_is_that_of_the_tokens(adapter: Any) -> None:
    prepared = models.prepare("tiny", "leankv-k8v4")
    session = models.session(prepared)
    rows = [session.append(list(b"The sea"), last=True)[-1], session.append([32])[-1]]
    each = [models_log(row, token) for row, token in zip(rows, b" x", strict=True)]
    found = adapter.loglikelihood([request("loglikelihood", "The sea", " x")], disable_tqdm=True)

    assert found[0][0] == pytest.approx(sum(each), rel=1e-9) and found[0][1] is False


def models_log(row: Any, token: int) -> float:
    import numpy as np

    wide = row.astype(np.float64)
    return float(wide[token] - wide.max() - np.log(np.exp(wide - wide.max()).sum()))


def test_rolling_is_the_sum_over_windows() -> None:
    from refemu.harness.adapter import RefemuLM

    lm, text = RefemuLM(model="tiny", max_length=8, prefix_token=0), "The sea was calm."
    whole = RefemuLM(model="tiny")
    found = lm.loglikelihood_rolling([request("loglikelihood_rolling", text)], disable_tqdm=True)[0]
    ids = list(text.encode())
    windows = [([0], ids[:8]), (ids[7:8], ids[8:16]), (ids[8:16], ids[16:])]
    each = whole._loglikelihood_tokens([(None, list(a), list(b)) for a, b in windows], disable_tqdm=True)

    assert found == pytest.approx(sum(total for total, _ in each), rel=1e-12)


def test_answer_ends_before_a_stop_string(adapter: Any) -> None:
    best = bytes(models.greedy(models.prepare("tiny", "leankv-k8v4"), list(b"The sea"), 12)).decode("utf-8", "replace")
    asked = [request("generate_until", "The sea", {"until": [best[5]], "max_gen_toks": 12})]
    asked += [request("generate_until", "The sea", {"until": [], "max_gen_toks": 12})]
    found = adapter.generate_until(asked, disable_tqdm=True)

    assert found == [best.partition(best[5])[0], best]


def test_sampled_answers_repeat(adapter: Any) -> None:
    options = {"until": [], "max_gen_toks": 8, "do_sample": True, "temperature": 1.5}
    asked = [request("generate_until", "The sea", options)] * 2
    found = adapter.generate_until(asked, disable_tqdm=True)

    assert found[0] == found[1] == adapter.generate_until(asked[:1], disable_tqdm=True)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({}, "needs model=NAME", id="model"),
        pytest.param(
            {"model": "tiny", "shots": 3}, "unknown argument 'shots' in --model_args; known: model,", id="unknown"
        ),
        pytest.param({"model": "tiny-encoder"}, "an encoder reads a text at once", id="encoder"),
        pytest.param({"model": "tiny", "scheme": "olive-4:low=90", "high": "x"}, "high", id="scheme"),
        pytest.param(
            {"model": "tiny", "max_length": 4096}, r"max_length must be in \[2, 2048\], got 4096", id="length"
        ),
        pytest.param({"model": "tiny", "max_gen_toks": 0}, "max_gen_toks must be in", id="tokens"),
        pytest.param(
            {"model": "tiny", "prefix_token": 256}, r"prefix_token must be in \[0, 255\], got 256", id="prefix"
        ),
    ],
)
def test_invalid_arguments_of_the_model_are_rejected(arguments: dict[str, Any], message: str) -> None:
    from refemu.harness.adapter import RefemuLM

    with pytest.raises(Refused, match=message):
        RefemuLM(**arguments)


def test_truncate_is_a_bool() -> None:
    from refemu.harness.adapter import RefemuLM

    with pytest.raises(RefusedType, match="truncate must be a bool, got 'no'"):
        RefemuLM.create_from_arg_string("model=tiny,truncate=no", {})


def test_text_without_context_needs_a_prefix_token(adapter: Any) -> None:
    with pytest.raises(Refused, match=r"tiny states no token that begins or ends a text.*give prefix_token=ID"):
        adapter.loglikelihood([request("loglikelihood", "", "The")], disable_tqdm=True)


@pytest.mark.parametrize("name", ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"])
def test_length_of_an_answer_has_four_names(name: str, adapter: Any) -> None:
    best = bytes(models.greedy(models.prepare("tiny", "leankv-k8v4"), list(b"The sea"), 3)).decode("utf-8", "replace")

    asked = [request("generate_until", "The sea", {"until": [], name: 3})]
    assert adapter.generate_until(asked, disable_tqdm=True) == [best]


@pytest.mark.parametrize(
    "options",
    [{"num_beams": 4}, {"repetition_penalty": 1.2}, {"do_sample": True, "temperature": 1.0, "top_p": 0.9}],
    ids=lambda options: list(options)[-1],
)
def test_other_ways_to_generate_are_rejected(options: dict[str, Any], adapter: Any) -> None:
    asked = [request("generate_until", "The sea", {"until": [], "max_gen_toks": 2, **options})]
    with pytest.raises(Refused, match=f"generation needs {list(options)[-1]} 1"):
        adapter.generate_until(asked, disable_tqdm=True)


def test_parameters_of_a_scheme_pass_through_the_harness() -> None:
    from refemu.harness.adapter import RefemuLM

    lm = RefemuLM.create_from_arg_string("model=tiny,scheme=harmonia-kv4:offline=false,online=false", {})

    assert lm.get_model_info()["refemu_scheme"] == "harmonia-kv8:low=4"


def test_request_beyond_the_context_is_rejected_or_cut() -> None:
    from refemu.harness.adapter import RefemuLM

    asked = [request("loglikelihood", "x" * 20, " y")]
    with pytest.raises(
        Refused, match="request 0 needs 21 tokens, and the context of tiny holds 8; use fewer shots, or"
    ):
        RefemuLM(model="tiny", max_length=8).loglikelihood(asked, disable_tqdm=True)
    with pytest.raises(Refused, match="request 0 needs 28 tokens"):
        answers = [request("generate_until", "x" * 20, {"max_gen_toks": 8})]
        RefemuLM(model="tiny", max_length=20).generate_until(answers, disable_tqdm=True)
    cut = RefemuLM(model="tiny", max_length=8, truncate=True).loglikelihood(asked, disable_tqdm=True)

    assert cut == RefemuLM(model="tiny").loglikelihood([request("loglikelihood", "x" * 7, " y")], disable_tqdm=True)


def test_command_of_the_harness_runs_a_local_task(tmp_path: Path) -> None:
    """Ten questions, as `lm_eval --model refemu` and `python -m refemu.harness` run them."""
    (tmp_path / "ten.jsonl").write_text(
        "\n".join(json.dumps({"q": each, "a": ANSWERS, "l": place % 3}) for place, each in enumerate(QUESTIONS))
    )
    (tmp_path / "ten.yaml").write_text(
        f"task: ten\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {tmp_path}/ten.jsonl\n"
        'test_split: test\noutput_type: multiple_choice\ndoc_to_text: "{{q}}"\ndoc_to_choice: "{{a}}"\n'
        "doc_to_target: l\nmetric_list:\n  - metric: acc\n"
    )
    line = ["--model", "refemu", "--model_args", "model=tiny,scheme=olive-8:low=90,high=130,step=10", "--tasks", "ten"]
    line += ["--include_path", str(tmp_path), "--output_path", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "refemu.harness", *line], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(results.read_text())
    assert found["results"]["ten"]["sample_len"] == 10
    assert found["config"]["refemu_scheme"] == "olive-8:low=90,high=130,step=10"


def test_loglikelihoods_are_those_of_the_hugging_face_backend(tmp_path: Path) -> None:
    """On untrained random weights, within the bound of scheme fp16 on logits: twice that on each log probability."""
    hf = library("transformers")
    from lm_eval.models.huggingface import HFLM

    from refemu.harness.adapter import RefemuLM

    letters = sorted(set("".join(QUESTIONS + ANSWERS)))
    make("llama", vocab_size=len(letters) + 3, max_position_embeddings=64).save_pretrained(tmp_path)
    tokenizer = _letters(letters)
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(tmp_path)
    asked = [request("loglikelihood", question, answer) for question in QUESTIONS for answer in ANSWERS]
    ours = RefemuLM(model=str(tmp_path)).loglikelihood(asked, disable_tqdm=True)
    theirs = HFLM(pretrained=str(tmp_path), dtype="float32", device="cpu").loglikelihood(asked, disable_tqdm=True)

    model, number = models.load(tmp_path), 0
    ids = model.tokenizer.encode(QUESTIONS[0] + ANSWERS[0])
    allowed = SECOND * toy_decoder.reach(model, ids).max()
    for each, (mine, _), (other, _) in zip(asked, ours, theirs, strict=True):
        tokens = len(model.tokenizer.encode(each.args[1]))
        assert abs(mine - other) <= 2 * tokens * allowed
        number += mine != other
    assert number  # fp16 and float32 are not the same arithmetic
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in theirs]


def _letters(letters: list[str]) -> Any:
    """A tokenizer of single characters."""
    from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers import models as kinds

    words = {"<s>": 0, "</s>": 1, "<unk>": 2, **{letter: place + 3 for place, letter in enumerate(letters)}}
    tokenizer = Tokenizer(kinds.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def test_registered_model_is_the_adapter() -> None:
    from lm_eval.api.registry import get_model

    from refemu import harness

    harness.register_now()
    harness.register_now()

    assert get_model(harness.NAME).__name__ == "RefemuLM"
    assert get_model("dummy").__name__ == "DummyLM"
