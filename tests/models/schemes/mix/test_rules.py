"""The rules of a mix: every error names the rule, the part, and its position in the text."""

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.mix import rules

REFUSED = {
    "fp16+olive-4": r"OliVe has no attention .* append \+fp16; got part 2, 'olive-4', at character 5",
    "fp16+olive-study": r"OliVe has no attention .* got part 2, 'olive-study', at character 5",
    "leankv+fp16": "LeanKV has no linear layers .* only be the last part; got part 1, 'leankv', at character 0",
    "olive-4+fp16@0": "attention for all blocks and must have no @, got part 2, 'fp16@0', at character 8",
    "olive-4@0+fp16": "exactly one linear part must be without @, got part 1, 'olive-4@0', at character 0: none "
    "computes the linear layers of the other blocks; add one",
    "olive-4+fp16+fp16": "exactly one .* got part 1, 'olive-4', at character 0 and part 2, 'fp16', at character 8: "
    "several compute the linear layers of all blocks; name blocks after all but one, as in fp16@0-3",
    "olive-4@0-1+olive-8@1-2+fp16+fp16": "block 1 in part 1, 'olive-4@0-1', .* and in part 2, .* at character 12",
    "olive-4+kllm-a4:weight_bits=3": "weight_bits affects linear parts only, got part 2, .* at character 8",
    "olive-4+fp16:acc=fp16": "acc affects linear parts only, got part 2",
    "kllm-a4:score_bits=3+fp16": "score_bits affects attention parts only, got part 1",
    "harmonia-kv4:low=5+fp16": "low affects attention parts only, got part 1",
    "fp16+harmonia-kv4:residual=fp32": "residual affects only the linear part without @, got part 2",
    "fp16@0:residual=fp32+fp16+fp16": "residual affects only the linear part without @, got part 1",
    "kllm-a4@0+fp16:residual=fp32+fp16": "must have residual=fp16 for part 1, 'kllm-a4@0', .* got fp32",
    "olive-4@0:calibration_tokens=10+olive-4+fp16": "equal calibration_tokens, got 10 in part 1, .* and 512 in part 2",
    "olive-4+leankv-k9v9": "part 2, 'leankv-k9v9', at character 8: unknown scheme .*; did you mean 'leankv-k8v",
    "olive-4:low=250+fp16": "part 1, 'olive-4:low=250', at character 0: olive: low must be below high, got 250, 250",
    "fp16+fp16:ac=1": "part 2, 'fp16:ac=1', at character 5: unknown parameter 'ac' of scheme fp16",
    "olive-4@3-1+fp16+fp16": "part 1, 'olive-4@3-1', at character 0: layers: .* got '3-1'",
    "fp16+": "part 2, '', at character 5: unknown scheme ''",
    "olive-4@0": "scheme 'olive-4@0': @ selects layers of a part of a mix, not of a single scheme",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=list(REFUSED))
def test_parts_that_break_a_rule_are_rejected(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        schemes.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "harmonia-kv8+harmonia-kv4-naive",
        "kllm-a4:act_bits=2+kllm-a4:act_bits=2",
        "kllm-a4@0:norm=fp16+fp16:residual=fp32+fp16",
        "olive-4@0:calibration=float,calibration_tokens=10+olive-4+fp16",
        "olive-4@0:act_bits=none+olive-4:calibration_tokens=10+fp16",
    ],
)
def test_takes_what_only_looks_like_that(text: str) -> None:
    assert schemes.text(schemes.parse(text)) == text


def test_error_in_python_names_the_part() -> None:
    with pytest.raises(Refused, match=r"OliVe has no attention of its own .* got part 2, 'olive-4'$"):
        models.compose(linear="fp16", attention="olive-4")


def test_one_part_is_not_a_mix() -> None:
    with pytest.raises(Refused, match="must have linear parts and then an attention, got 1 part"):
        rules.check([object()], ["part 1"])
