"""Loading a target with its drafter, and answering prompts with them."""

from __future__ import annotations

import secrets
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from operator import index
from pathlib import Path
from typing import SupportsIndex

import torch

from draftwalk.defaults import sampling_settings, warn_of_others
from draftwalk.draft import Drafter
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.draft.pairing import check_fingerprint, find_packaged_drafter
from draftwalk.draft.vocabulary import read_list
from draftwalk.errors import PromptError, UserError
from draftwalk.fetch import resolve
from draftwalk.loop import CHUNK, Loop
from draftwalk.models import open_model
from draftwalk.ops import Operations
from draftwalk.ops.choice import BackEnd, open_operations
from draftwalk.ops.memory import KVType
from draftwalk.prompt.chat import ChatTemplate
from draftwalk.prompt.from_folder import tokenizer_from_folder
from draftwalk.prompt.from_gguf import tokenizer_from_gguf
from draftwalk.prompt.messages import Message
from draftwalk.prompt.tokenizer import Tokenizer
from draftwalk.result import Result
from draftwalk.sequence import Request, Sequence
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.step import Step
from draftwalk.target.decoder import Decoder
from draftwalk.target.load import build_target
from draftwalk.text.stream import TextStream
from draftwalk.weights import GgufCheckpoint, SafetensorsFolder

DEFAULT_CONTEXT = 4096
PARALLEL = 16  # prompts that are answered at a time


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and in which type models compute, and how much context they are prepared for.

    Attributes:
        device: "cpu", "cuda" and so on.
        dtype: type of activations.
        context: most tokens of a text.
        chunk: prompt rows in one pass.
        back_end: "auto" is the native one wherever it can be.
        threads: of the native back end; as many as there are physical cores by default.
        kv: how the native back end stores K/V.
        draft_kv: the same for the drafter's; as the target's by default.
    """

    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    context: int = DEFAULT_CONTEXT
    chunk: int = CHUNK
    back_end: BackEnd = "auto"
    threads: int | None = None
    kv: KVType = "f16"
    draft_kv: KVType | None = None

    def open(self) -> Operations:
        """The back end.

        Raises:
            UserError: it cannot be used here.
        """
        device = find_device(self.device)
        return open_operations(device, self.dtype, self.back_end, self.threads, self.kv)


class Engine:
    """A target, its drafter and its words, ready to answer.

    Args:
        checkpoint: the target's.
        target: built from it.
        drafter: proposes; the empty one for plain decoding.
        placement: where they compute.
        drafter_path: where the drafter came from, if from a file.
    """

    def __init__(
        self,
        checkpoint: GgufCheckpoint | SafetensorsFolder,
        target: Decoder,
        drafter: Drafter,
        placement: Placement,
        drafter_path: Path | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.target = target
        self.drafter = drafter
        self.drafter_path = drafter_path
        self.placement = placement
        calibration = drafter.config.calibration if isinstance(drafter, BlockDrafter) else None
        self.loop = Loop(target, drafter, placement.context, placement.chunk, calibration)

    def plain(self) -> Engine:
        """The same target, sharing its weights, without a drafter."""
        return Engine(self.checkpoint, self.target, EmptyDrafter(), self.placement)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The target's tokenizer."""
        if isinstance(self.checkpoint, GgufCheckpoint):
            return tokenizer_from_gguf(self.checkpoint.metadata, self.checkpoint.generation)
        return tokenizer_from_folder(self.checkpoint.path, self.checkpoint.generation)

    @cached_property
    def template(self) -> ChatTemplate | None:
        """The target's chat template, if it has one."""
        source = self.tokenizer.chat_template
        if source is None:
            return None
        return ChatTemplate(source, self.tokenizer.bos_text, self.tokenizer.eos_text)

    @property
    def context(self) -> int:
        """Most tokens of a text, prompt included."""
        return self.loop.context

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text to be continued as it stands; nothing in it is a special token."""
        return self._checked(self.tokenizer.encode_prompt(text))

    def encode_chat(
        self, messages: Many[Message], template_kwargs: Mapping[str, object] | None = None
    ) -> list[int]:
        """Token ids of a conversation, rendered by the chat template.

        Args:
            messages: the conversation so far; the answer to it is what will be generated.
            template_kwargs: further variables of the template, such as `enable_thinking`.
        """
        if self.template is None:
            raise PromptError(
                f"{self.checkpoint.path.name} has no chat template", "give the prompt as plain text"
            )
        text = self.template.render(
            messages, True, template_kwargs or {}, shield=self.tokenizer.shield
        )
        return self._checked(self.tokenizer.encode_prompt(text, special=True))

    def sampling(self, asked: Mapping[str, object] | None = None) -> Sampling:
        """Sampling as asked for, completed by the checkpoint's generation config.

        What that config asks for and cannot be done is warned of, once.
        """
        return sampling_settings(asked or {}, self._generation, self.checkpoint.path.name)

    def start(
        self,
        prompt: Many[int],
        sampling: Sampling,
        limits: Limits | None = None,
        window: Window | None = None,
        after: Sequence | None = None,
    ) -> Sequence:
        """Takes a prompt on; it keeps its slot until it is released.

        Args:
            prompt: token ids.
            sampling: without a seed, one is drawn.
            limits: where the answer ends.
            window: how much of a draft is verified; by default what makes the text fastest.
            after: an ended sequence whose slot and common prefix are taken over.

        Raises:
            UserError: it cannot be answered.
        """
        limits = limits or Limits()
        self._check_ids(prompt, sampling, limits)
        if sampling.seed is None and not sampling.greedy:
            # 53 bits, so that a reader of JSON who has only doubles keeps them all.
            sampling = replace(sampling, seed=secrets.randbits(53))
        words = self.tokenizer
        request = Request(
            tuple(index(token) for token in prompt),
            sampling,
            limits,
            window or Window(auto=True),
            words.stop_ids,
            TextStream(words.token_bytes, limits.stop, words.strips_leading_space),
        )
        self._warn_of_window(request.window)
        return self.loop.admit(request) if after is None else self.loop.follow(after, request)

    def steps(self, sequence: Sequence) -> Iterator[Step]:
        """The steps of a sequence until it has ended.

        All that were taken on go forward together: a step that somebody else had to take is found
        in the sequence, and the loop takes one only where there is none.
        """
        for seen in count():
            while seen == len(sequence.steps):
                if sequence.finish_reason is not None:
                    return
                self.loop.step()
            yield sequence.steps[seen]

    def release(self, sequence: Sequence) -> None:
        """Gives a sequence's slot back, ended or not."""
        self.loop.release(sequence)

    def stream(
        self,
        prompt: Many[int],
        sampling: Sampling | None = None,
        limits: Limits | None = None,
        window: Window | None = None,
    ) -> Iterator[Step]:
        """Answers one prompt, step by step; other prompts may be answered in between.

        Raises:
            UserError: it cannot be answered, or not to its end.
        """
        sequence = self.start(prompt, sampling or self.sampling(), limits, window)
        try:
            yield from self.steps(sequence)
            if sequence.error is not None:
                raise sequence.error
        finally:
            self.release(sequence)

    def complete(
        self,
        prompts: Many[Many[int]],
        sampling: Sampling | None = None,
        limits: Limits | None = None,
        window: Window | None = None,
        parallel: int = PARALLEL,
    ) -> list[Result]:
        """Answers several prompts, in their order; one that fails does not harm the others.

        Args:
            prompts: token ids of each.
            sampling: the same for all; without a seed, each draws its own.
            limits: where the answers end.
            window: how much of a draft is verified; by default what makes the texts fastest.
            parallel: prompts to answer at a time, in the same passes.
        """
        if parallel < 1:
            raise PromptError(
                f"parallel is {parallel}", "at least one prompt is answered at a time"
            )
        sampling = sampling or self.sampling()
        waiting = deque(enumerate(prompts))
        running: dict[int, Sequence] = {}
        results: dict[int, Result] = {}
        try:
            while waiting or running:
                while waiting and len(running) < parallel:
                    number, prompt = waiting.popleft()
                    try:
                        running[number] = self.start(prompt, sampling, limits, window)
                    except UserError as error:
                        results[number] = Result.refused(error)
                ended = [n for n, text in running.items() if text.finish_reason is not None]
                for number in ended:
                    results[number] = Result.of(running[number])
                    self.release(running.pop(number))
                if running and not ended:
                    self.loop.step()
        finally:
            for text in running.values():
                self.release(text)
        return [results[number] for number in range(len(prompts))]

    @cached_property
    def _generation(self) -> Mapping[str, object]:
        """The checkpoint's generation config, after a warning of what in it is not followed."""
        warn_of_others(self.checkpoint.generation, self.checkpoint.path.name)
        return self.checkpoint.generation

    def _checked(self, ids: list[int]) -> list[int]:
        if not ids:
            raise PromptError("the prompt is empty", "give some text")
        return ids

    def _check_ids(self, prompt: Many[int], sampling: Sampling, limits: Limits) -> None:
        """Whether the prompt fits and every id named anywhere is a token."""
        if not prompt:
            raise PromptError("the prompt is empty", "give some text")
        known = self.target.vocabulary
        for what, ids in (
            ("the prompt", prompt),
            ("logit_bias", sampling.logit_bias),
            ("stop_ids", limits.stop_ids),
        ):
            wrong = [token for token in ids if not _is_id(token, known)][:1]
            if wrong:
                raise PromptError(
                    f"{what} has token {wrong[0]!r}, the vocabulary is 0 to {known - 1}"
                )
        if len(prompt) >= self.context:
            raise PromptError(
                f"the prompt has {len(prompt)} tokens, the context holds {self.context} "
                "with the answer",
                "shorten the prompt or give a larger context (-c)",
            )

    def _warn_of_window(self, window: Window) -> None:
        most = self.drafter.block - 1
        if window.n_max is not None and window.n_max > most > 0:
            warnings.warn(
                f"n_max {window.n_max} is more than the drafter's block allows; {most} are drafted",
                stacklevel=3,
            )


def load(
    target: str | Path,
    drafter: str | Path | None = None,
    placement: Placement | None = None,
    plain: bool = False,
    draft_vocabulary: Path | None = None,
) -> Engine:
    """Loads a target and its drafter.

    Args:
        target: GGUF file, safetensors folder, or a name of the catalogue.
        drafter: the same of a drafter; `None` takes the packaged one that was trained on this
            target's embedding, if there is one.
        placement: where they compute.
        plain: decode without a drafter.
        draft_vocabulary: a list of the tokens that the drafter may propose.

    Raises:
        UserError: a file that is damaged or not implemented, or a pair that does not fit.
    """
    placement = placement or Placement()
    ops = placement.open()
    with ops.alone():
        return _load(target, drafter, placement, plain, draft_vocabulary, ops)


def _load(
    target: str | Path,
    drafter: str | Path | None,
    placement: Placement,
    plain: bool,
    draft_vocabulary: Path | None,
    ops: Operations,
) -> Engine:
    listed = None if draft_vocabulary is None else read_list(draft_vocabulary)
    checkpoint = open_model(resolve(target))
    model = build_target(checkpoint, ops, placement.context)
    found = None
    if not plain:
        found = find_packaged_drafter(checkpoint) if drafter is None else resolve(drafter)
    if found is None:
        if listed is not None:
            raise UserError(f"{draft_vocabulary} is for a drafter, but there is none", "give -md")
        return Engine(checkpoint, model, EmptyDrafter(), placement)
    proposing = open_model(found)
    check_fingerprint(proposing, checkpoint)
    built = build_drafter(
        proposing, ops, model.tables, model.depth, model.context, listed, placement.draft_kv
    )
    return Engine(checkpoint, model, built, placement, found)


def find_device(name: str) -> torch.device:
    """A device by torch's name for it.

    Raises:
        UserError: there is none, or it computes nothing.
    """
    try:
        device = torch.empty(0, device=name).device
        if device.type == "meta":
            raise UserError("device 'meta' computes nothing", "cpu always can")
        return device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {name!r} cannot be used: {reason}", "cpu always can") from error


def _is_id(token: object, known: int) -> bool:
    """Whether something is a token id; numpy's and torch's integers are, booleans are not."""
    if isinstance(token, bool) or not isinstance(token, SupportsIndex):
        return False
    try:
        return 0 <= index(token) < known
    except TypeError:  # a tensor that holds no integer
        return False
