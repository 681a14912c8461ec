"""The check of English: a planted violation of each rule is found, and right sentences pass."""

from pathlib import Path

import pytest

from tools import prose

WRONG = (
    (1, "Write the new token behind a move."),
    (1, "Put the norm in\nfront of the block."),
    (2, "An outlier beside its victim."),
    (3, "The registers stand in the manifest."),
    (3, "The tree lies in a ring."),
    (4, "What it finds is held against all rows."),
    (5, "No row tells the two designs."),
    (6, "The set convicts 51 faults."),
    (6, "Each hole has a row."),
    (7, "Mend that line."),
    (7, "The study goes on from there."),
    (8, "Finished shards are kept."),
    (8, "The disk has no room."),
    (9, "Exit code 0 is no pass."),
    (10, "A device that decides otherwise."),
    (10, "The sum has other bits."),
    (16, "A map that does not fit is refused."),
    (17, "refemu generates the shell around your core."),
    (17, "The ratio is the middle one of three."),
)
RIGHT = (
    "The register is behind the wall of the enclosure, and behind the scenes nothing changes.",
    "Besides, KV stands for key and value.",
    "The two rows tell the designs apart.",
    "Hold the button. The count is no longer 0, and there is no sign bit.",
    "Unless stated otherwise, the bench stops; otherwise it continues. Lay out the words.",
    "A shell command completes. `is refused` and `beside` are code, as is the class Refused.",
    "See [the table](beside.md) and https://example.org/behind.",
)


def found(text: str, path: str = "docs/page.md") -> list[tuple[int, int]]:
    """Line and rule of each finding."""
    return [(finding.line, finding.rule) for finding in prose.findings(path, text)]


@pytest.mark.parametrize(("rule", "sentence"), WRONG)
def test_a_broken_rule_is_found_in_a_page(rule: int, sentence: str) -> None:
    assert found(f"# Title\n\nRight. {sentence}\n") == [(3, rule)]


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _ in WRONG} == {rule for rule, *_ in prose.RULES}


@pytest.mark.parametrize("sentence", RIGHT)
def test_right_sentences_pass(sentence: str) -> None:
    assert found(f"{sentence}\n") == []


def test_code_in_a_page_is_not_english() -> None:
    assert found("```\n`behind\n```\n<!-- beside -->\nText `behind x`.\n") == []


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('"""The row behind it."""', "refemu/x.py"),
        ("x = 1  # the row behind it", "refemu/x.py"),
        ('raise ValueError(f"{x}: the row behind it")', "refemu/x.py"),
        ("def test_row_behind_it() -> None:", "tests/x.py"),
    ],
)
def test_a_broken_rule_is_found_in_a_module(line: str, path: str) -> None:
    assert found(f"import x\n{line}\n", path) == [(2, 1)]


def test_names_and_values_of_module_are_not_english() -> None:
    assert found('behind = kept("beside", r"\\\\d")\nsay(f"the rows {behind} and `kept`")\n', "refemu/x.py") == []
    assert found('assert text == "a row behind it"\n', "tests/x.py") == []


def test_a_long_sentence_is_found() -> None:
    words = " ".join(["Word"] * prose.LONGEST)
    assert found(f"Right. {words}.\n") == [(1, 13)]  # the page's mean
    assert found(f"Right.\n\n- No. {words} word.\n- Yes. No. Yes.\n") == [(3, 13)]


def test_sentences_end_at_blank_lines_and_items() -> None:
    text = "# A title\n\nOne `x.y` sentence. refemu has\nanother\n- item\n- other item\n| a | cell |\n"
    assert [sentence.split() for _, sentence in prose.sentences(prose.prose("docs/a.md", text))] == [
        ["One", "X", "sentence."],
        ["refemu", "has", "another"],
        ["item"],
        ["other", "item"],
    ]


def test_wide_code_is_found() -> None:
    line = "x" * prose.COLUMNS
    assert found(f"```\n{line}\n{line}x\n```\n{line} no code x\n") == [(3, 22)]


def test_exception_excuses_one_line_and_must_be_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text("The row behind it.\nA row behind that.\n")
    needed = {"place": "a.md", "rule": "1", "text": "behind that", "reason": "a test"}
    first = "a.md:1: rule 1: 'behind': write after or before"

    assert list(prose.check(["a.md"], [needed])) == [first]
    assert list(prose.check(["a.md"], [needed, needed | {"rule": "2"}])) == [
        first,
        "tools/prose.toml: a.md: 'behind that': not needed, remove it",
    ]
    assert list(prose.check(["b.md"][:0], [needed])) == []


def test_the_table_counts_by_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text("The row behind it is kept.\n")
    head, page, total = list(prose.table(["a.md"]))

    assert head.split()[:4] == ["place", "words", "/1000", "1"]
    assert page.split() == ["a.md", "6", "333.3", "1", "1"] and total.split()[1:] == page.split()[1:]
