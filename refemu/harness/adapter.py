"""The model of lm-evaluation-harness that computes under a scheme of refemu.

The context of a request is the scheme's prompt, and the continuation follows it: schemes that treat a prompt and later
tokens differently do so here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval import utils
from lm_eval.api.model import TemplateLM
from tqdm import tqdm

from refemu.arith import threads
from refemu.arith.checks import Refused, require_bool, require_int
from refemu.harness import scoring
from refemu.harness.scoring import ALIKE, Request
from refemu.models.entry import prepare
from refemu.models.scores.score import decoder
from refemu.models.sequences.generation import Chooser
from refemu.models.sequences.special_tokens import special_tokens

GENERATED = 256  #: most tokens of an answer, where a task states no number
COUNTS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  #: names of one option, best first
#: options of other ways to generate, and the value that changes nothing
PLAIN = {"num_beams": 1, "repetition_penalty": 1.0}


class RefemuLM(TemplateLM):  # type: ignore[misc]
    """A decoder under a scheme, for the tasks of the harness."""

    def __init__(
        self,
        model: str = "",
        scheme: str = "fp16",
        batch_size: Any = ALIKE,
        max_length: int | None = None,
        max_gen_toks: int = GENERATED,
        calibration_text: str = "",
        prefix_token: int | None = None,
        truncate: bool = False,
        device: str | None = None,
        max_batch_size: Any = None,
        **more: Any,
    ) -> None:
        """Prepare the model. more: parameters of the scheme, since the harness splits `scheme=NAME:a=1,b=2` at commas.

        prefix_token: id before a text without context; by default that which begins, or else ends, a text.
        batch_size: most contexts that are computed together; 1, the harness's default, and "auto" are 32. truncate:
        cut the start of requests that the context does not hold, instead of an error. device: ignored, since
        refemu computes on the CPU and the harness asks for cuda:0 by default.
        """
        super().__init__()
        if not model:
            raise Refused("refemu: --model_args needs model=NAME, a model of `refemu models list` or a path")
        if more and ":" not in str(scheme):
            known = "model, scheme, max_length, max_gen_toks, calibration_text, prefix_token, truncate"
            raise Refused(f"refemu: unknown argument {next(iter(more))!r} in --model_args; known: {known}")
        require_bool(truncate, "refemu", "truncate")
        require_int(max_gen_toks, 1, 1 << 32, "refemu", "max_gen_toks")
        threads.set_threads(threads.from_environment())
        self._loaded = decoder(str(model))
        spec = ",".join([str(scheme), *(f"{key}={_word(value)}" for key, value in more.items())])
        source = Path(calibration_text) if calibration_text else None
        self._prepared = prepare(self._loaded, spec, calibration=source)
        self._special = special_tokens(self._loaded)
        sizes = self._prepared.model
        if max_length is not None:
            require_int(max_length, 2, sizes.context, "refemu", "max_length")
        if prefix_token is not None:
            require_int(prefix_token, 0, sizes.vocab - 1, "refemu", "prefix_token")
        self._prefix = prefix_token
        self._batch = int(batch_size) if str(batch_size).isdigit() and int(batch_size) > 1 else ALIKE
        self.max_length: int = max_length or sizes.context
        self._most, self._truncate = max_gen_toks, truncate

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text; Refused: the model states none."""
        if not self._special.ends:
            raise Refused(
                f"refemu: {self._loaded.name} states no token that begins or ends a text, and a text without context "
                "needs one; give prefix_token=ID in --model_args"
            )
        return self._special.ends[0]

    @property
    def prefix_token_id(self) -> int:
        """The token before a text without context."""
        if self._prefix is not None:
            return self._prefix
        return self.eot_token_id if self._special.begin is None else self._special.begin

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **more: Any) -> list[int]:
        """Token ids of a text; nothing is added."""
        return self._loaded.tokenizer.encode(string)

    @property
    def tokenizer_name(self) -> str:
        """Name of the model, for the harness's caches."""
        return self._loaded.name

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes next to results: model, digest, scheme."""
        from refemu import __version__
        from refemu.models import schemes

        return {
            "refemu_version": __version__,
            "refemu_model": self._loaded.name,
            "refemu_model_sha256": self._loaded.sha256,
            "refemu_scheme": schemes.text(self._prepared.config),
        }

    def _loglikelihood_tokens(
        self, requests: Sequence[Any], disable_tqdm: bool = False, **more: Any
    ) -> list[tuple[float, bool]]:
        cut = [self._request(number, *each[1:]) for number, each in enumerate(requests)]
        with tqdm(total=len(cut), desc="refemu: loglikelihoods", disable=disable_tqdm) as bar:
            answers = scoring.loglikelihoods(self._prepared, cut, self._batch, bar.update)
        for each, answer in zip(requests, answers, strict=True):
            if each[0] is not None:
                self.cache_hook.add_partial("loglikelihood", each[0], answer)
        return answers

    def _request(self, number: int, context: Sequence[int], continuation: Sequence[int]) -> Request:
        """Context and continuation, which must fit; the last token is scored and not read."""
        if not continuation:
            raise Refused(f"refemu: request {number}: the continuation must have at least one token, got none")
        tokens = len(context) + len(continuation)
        if tokens > self.max_length + 1:
            self._too_long(number, tokens - 1)
            context = list(context)[tokens - self.max_length - 1 :]
        if not context:
            raise Refused(
                f"refemu: request {number}: the continuation leaves no context, with {len(continuation)} tokens for a "
                f"context of {self.max_length}"
            )
        return Request(tuple(context), tuple(continuation))

    def _too_long(self, number: int, tokens: int) -> None:
        if not self._truncate:
            raise Refused(
                f"refemu: request {number} needs {tokens} tokens, and the context of {self._loaded.name} holds "
                f"{self.max_length}; use fewer shots, or truncate=true in --model_args to cut its start"
            )

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Log probability of each text, in windows of the context as the harness cuts them."""
        windows, owners = [], []
        for number, request in enumerate(requests):
            ids = self.tok_encode(request.args[0])
            pairs = utils.get_rolling_token_windows(ids, self.prefix_token_id, self.max_length, 1)
            for pair in map(utils.make_disjoint_window, pairs):
                windows.append((None, *pair))
                owners.append(number)
        totals = [0.0] * len(requests)
        for number, (results, _) in zip(owners, self._loglikelihood_tokens(windows, disable_tqdm), strict=True):
            totals[number] += results
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The answer to each prompt, up to a stop string, the end token, or the number of tokens."""
        answers: list[str] = [""] * len(requests)
        groups: dict[int, list[int]] = {}
        for number, request in enumerate(requests):
            count = next((request.args[1][key] for key in COUNTS if request.args[1].get(key) is not None), self._most)
            groups.setdefault(require_int(count, 1, self.max_length, "refemu", COUNTS[0]), []).append(number)
        with tqdm(total=len(requests), desc="refemu: answers", disable=disable_tqdm) as bar:
            for count, numbers in groups.items():
                results = self._answers([requests[number].args for number in numbers], numbers, count, bar.update)
                for number, text in zip(numbers, results, strict=True):
                    answers[number] = text
                    self.cache_hook.add_partial("generate_until", requests[number].args, text)
        return answers

    def _answers(self, asked: list[Any], numbers: list[int], count: int, done: Any) -> list[str]:
        prompts, stops, choosers = [], [], []
        for number, (context, options) in zip(numbers, asked, strict=True):
            ids = self.tok_encode(context) or [self.prefix_token_id]
            if len(ids) + count > self.max_length:
                self._too_long(number, len(ids) + count)
                ids = ids[-max(self.max_length - count, 1) :]
            until = options.get("until") or []
            prompts.append(ids)
            stops.append([until] if isinstance(until, str) else list(until))
            choosers.append(_chooser(options))

        def stop(place: int, ids: list[int]) -> bool:
            if ids[-1] in self._special.ends:
                return True
            text = self._loaded.tokenizer.decode(ids)
            return any(each and each in text for each in stops[place])

        results = scoring.continuations(self._prepared, prompts, count, stop, choosers, self._batch, done)
        return [self._text(ids, each) for ids, each in zip(results, stops, strict=True)]

    def _text(self, ids: list[int], stops: list[str]) -> str:
        """The text of an answer, before its first stop string."""
        text = self._loaded.tokenizer.decode([each for each in ids if each not in self._special.ends])
        for each in filter(None, stops):
            text = text.partition(each)[0]
        return text


def _word(value: Any) -> str:
    """A parameter of a scheme as text, from the harness's reading of it."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _chooser(options: dict[str, Any]) -> Chooser:
    """Greedy, or sampling from the task's seed; other ways of sampling are rejected."""
    temperature = float(options.get("temperature") or 0.0)
    sampled = temperature > 0 and options.get("do_sample", True)
    for key, plain in (PLAIN | {"top_p": 1.0} if sampled else PLAIN).items():
        if options.get(key, plain) not in (plain, None):
            raise Refused(f"refemu: generation needs {key} {plain}, got {options[key]}")
    if not sampled:
        return Chooser()
    return Chooser(temperature, int(options.get("top_k") or 0), int(options.get("seed", 0)))
