"""A folder's tokenizer and the GGUF keys made from it: the same ids, texts and stop tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE

from draftwalk.convert.target_gguf import target_file, write_target
from draftwalk.convert.tokenizer_check import plain
from draftwalk.convert.tokenizer_gguf import tokenizer_keys
from draftwalk.errors import CheckpointError
from draftwalk.models import open_model
from draftwalk.prompt import Tokenizer, tokenizer_from_folder, tokenizer_from_gguf
from draftwalk.prompt.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from draftwalk.prompt.recognition import SENTENCES, recognise
from draftwalk.weights import GgufCheckpoint, Typed, write_gguf
from draftwalk.weights.gguf_values import Value
from support.hf_targets import write_hf_target
from support.hostile_texts import WORDS, hostile_texts
from support.passes import logits_of
from support.vocabularies import Metadata, byte_level, smollm2, special_texts

# What the tokenizers library knows of letters and llama.cpp does not: newer ones, and that the long
# s and the sign of Kelvin are an s and a k without regard to case.
NEWER = set("\u1c89\U00010d4a\U00010d40\U00013460\u017f\u212a")

ODD_BLANKS = set("\u2003\u3000\u2028\u2029\u1680\u205f\u200a")

_CASES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# As the models' own tokenizer.json files cut words.
PUBLISHED: dict[str, list[object]] = {
    "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
    "smollm": [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ],
    "qwen2": [
        pre_tokenizers.Split(
            Regex(_CASES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _TAIL), "isolated"
        ),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
    "qwen35": [
        pre_tokenizers.Split(
            Regex(
                _CASES + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
                r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
            "isolated",
        ),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
    "llama-bpe": [
        pre_tokenizers.Split(
            Regex(_CASES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _TAIL), "isolated"
        ),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
    "deepseek-coder": [
        pre_tokenizers.Split(Regex("[\r\n]"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{L}+"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{P}+"), "isolated"),
        pre_tokenizers.Split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
}


def byte_level_library(metadata: Metadata, pre: str) -> Library:
    """What a model of this vocabulary would have as its tokenizer.json."""
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    kinds = metadata["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    assert isinstance(kinds, list)
    own = {token: index for index, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    library = Library(BPE(own, pairs, ignore_merges=pre == "llama-bpe"))
    library.pre_tokenizer = pre_tokenizers.Sequence(PUBLISHED[pre])
    library.decoder = decoders.ByteLevel()
    if pre.startswith("qwen"):
        library.normalizer = normalizers.NFC()
    for index, token in enumerate(tokens):
        if kinds[index] != 1:
            library.add_tokens([AddedToken(token, special=kinds[index] == 3, normalized=False)])
    return library


def sentencepiece_library(prefix: bool) -> Library:
    """As converters make it of a SentencePiece model: every way to a token is a merge."""
    marks = ["<unk>", "<s>", "</s>", "<turn>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trained = Library(BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=marks, show_progress=False)
    corpus = [word * 2 for word in WORDS if "\n" not in word] + list(SENTENCES)
    trained.train_from_iterator(corpus * 3, trainer)
    model = json.loads(trained.to_str())["model"]
    pieces = [piece for piece in model["vocab"] if piece not in marks and "\n" not in piece]
    pieces.sort(key=lambda piece: int(model["vocab"][piece]))
    ids = {token: index for index, token in enumerate([*marks, *byte_tokens, *pieces])}
    merges = [
        (piece[:cut], piece[cut:])
        for piece in pieces
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    library = Library(BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        library.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        library.normalizer = normalizers.Replace(" ", "▁")
    library.decoder = decoders.Sequence(steps)
    library.add_special_tokens(marks)
    return library


def folder_of(
    library: Library, path: Path, config: Mapping[str, object], rows: int = 0, **generation: object
) -> Path:
    """A target's folder with this tokenizer, and an embedding of that many rows."""
    count = max(library.get_vocab(with_added_tokens=True).values()) + 1
    ids = {"eos_token_id": None, "bos_token_id": None}
    write_hf_target(path, "llama", torch.float32, vocab_size=rows or count, **ids)
    (path / "generation_config.json").write_text(json.dumps(generation))
    (path / "tokenizer.json").write_text(library.to_str(), encoding="utf-8")
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def both(folder: Path) -> tuple[Tokenizer, Tokenizer, dict[str, Value | Typed]]:
    checkpoint = open_model(folder)
    keys = tokenizer_keys(checkpoint)
    own = tokenizer_from_folder(folder, checkpoint.generation)
    return own, tokenizer_from_gguf(plain(keys)), keys


def assert_same(own: Tokenizer, made: Tokenizer, texts: list[str], specials: bool = True) -> None:
    for text in texts:
        if NEWER & set(text):
            continue
        ids = own.encode(text)
        assert made.encode(text) == ids, text
        assert made.decode(ids) == own.decode(ids), text
        if specials:
            assert made.encode(text, special=True) == own.encode(text, special=True), text
        assert made.encode_prompt(text) == own.encode_prompt(text), text
    assert made.stop_ids == own.stop_ids
    assert (made.bos_id, made.add_bos) == (own.bos_id, own.add_bos)
    for index in range(own.vocabulary_size):
        assert made.token_bytes(index, True) == own.token_bytes(index, True), index


@pytest.mark.parametrize("pre", [name for name in PUBLISHED if name != "smollm"])
def test_byte_level(pre: str, tmp_path: Path) -> None:
    metadata = byte_level(pre)
    config = {"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>", "add_bos_token": True}
    folder = folder_of(byte_level_library(metadata, pre), tmp_path / "m", config)
    texts = hostile_texts(special_texts(metadata))
    if pre == "deepseek-coder":  # blanks of many kinds side by side are cut otherwise
        with pytest.warns(UserWarning, match="cuts words almost as deepseek-coder does"):
            own, made, keys = both(folder)
        texts = [text for text in texts if text.isascii() or not set(text) & ODD_BLANKS]
    else:
        own, made, keys = both(folder)
    assert keys["tokenizer.ggml.pre"] == pre
    assert_same(own, made, texts)


def test_smollm2_s_own(tmp_path: Path) -> None:
    metadata = smollm2()
    config = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    folder = folder_of(byte_level_library(metadata, "smollm"), tmp_path / "m", config)
    own, made, keys = both(folder)
    assert_same(own, made, hostile_texts(special_texts(metadata)))
    for key in ("model", "pre", "tokens", "token_type", "merges", "bos_token_id", "eos_token_id"):
        assert keys[f"tokenizer.ggml.{key}"] == metadata[f"tokenizer.ggml.{key}"], key


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece(prefix: bool, tmp_path: Path) -> None:
    library = sentencepiece_library(prefix)
    config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}
    own, made, keys = both(folder_of(library, tmp_path / "m", config, eos_token_id=[2, 3]))
    assert keys["tokenizer.ggml.add_space_prefix"] is prefix
    assert own.stop_ids == {2, 3}
    runs = ("====", "aaaa", "abab", "----", "    ", "▁▁")  # ties, see convert/tokenizer_json.py
    texts = [t for t in hostile_texts(["<s>", "</s>", "<turn>"]) if not any(r in t for r in runs)]
    assert len(texts) > 80
    assert_same(own, made, texts)


def test_a_composed_text_has_the_same_ids(tmp_path: Path) -> None:
    library = byte_level_library(byte_level("qwen2"), "qwen2")
    own, made, keys = both(folder_of(library, tmp_path / "m", {"eos_token": "<|endoftext|>"}))
    assert keys["draftwalk.tokenizer.normalizer"] == "NFC"
    assert made.encode("e\u0301") == own.encode("é") == made.encode("é")


def test_unused_tokens_fill_the_embedding(tmp_path: Path) -> None:
    library = sentencepiece_library(False)
    count = library.get_vocab_size(with_added_tokens=True)
    library.add_tokens([AddedToken(f"[PAD{count + 3}]", special=False)])
    folder = folder_of(library, tmp_path / "m", {"bos_token": "<s>"}, rows=count + 10)
    _, made, keys = both(folder)
    assert made.vocabulary_size == count + 10
    for name in ("tokens", "token_type", "scores"):
        values = keys[f"tokenizer.ggml.{name}"]
        assert isinstance(values, list)
        assert len(values) == count + 10
    assert made.token_bytes(count + 9, special=True) == b"", "an unused token says nothing"
    with pytest.raises(CheckpointError, match="tokens, but an embedding of 50 rows"):
        both(folder_of(library, tmp_path / "n", {"bos_token": "<s>"}, rows=50))


def test_the_keys_of_a_gguf_file_are_copied(tmp_path: Path) -> None:
    library = sentencepiece_library(True)
    folder = folder_of(library, tmp_path / "m", {"bos_token": "<s>", "chat_template": "{{ x }}"})
    keys = tokenizer_keys(open_model(folder))
    assert keys["tokenizer.chat_template"] == "{{ x }}"
    fixture = Path(__file__).parent.parent / "fixtures" / "targets" / "llama" / "model.gguf"
    own = open_model(fixture)
    rows = own.config["vocab_size"]
    assert isinstance(rows, int)
    metadata = {k: v for k, v in own.metadata.items() if not k.startswith("tokenizer.")}  # type: ignore[union-attr]
    small = {**keys, "tokenizer.ggml.padding_token_id": 0xFFFFFFFF}
    for name in ("tokens", "token_type", "scores"):
        values = small[f"tokenizer.ggml.{name}"]
        assert isinstance(values, list)
        small[f"tokenizer.ggml.{name}"] = values[: rows - 5]  # type: ignore[assignment]
    write_gguf(tmp_path / "t.gguf", {**metadata, **small}, list(own.file.tensors.values()))  # type: ignore[union-attr]
    copied = tokenizer_keys(open_model(tmp_path / "t.gguf"))
    assert set(copied) == set(small)
    for key, value in small.items():
        if isinstance(value, list):
            assert copied[key][: len(value)] == value, key  # type: ignore[index]
        else:
            assert copied[key] == value
    assert len(copied["tokenizer.ggml.tokens"]) == rows  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", PRE_TOKENIZERS, ids=lambda entry: entry.names[0])
def test_every_pre_tokenizer_is_told_from_all_others(entry: PreTokenizer) -> None:
    steps = entry.steps()
    found = recognise(
        lambda text: [word for word, _ in steps.pre_tokenize_str(text)], entry.whole_words
    )
    assert found is not None
    assert (found.entry, found.exact) == (entry, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pre_tokenizer": {"type": "Whitespace"}}, "cuts words in a way"),
        ({"normalizer": {"type": "Lowercase"}}, "normalizer 'Lowercase'"),
        ({"pre_tokenizer": None}, "cuts words in a way"),
    ],
)
def test_what_gguf_cannot_say_is_refused(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    library = byte_level_library(byte_level("gpt-2"), "gpt-2")
    folder = folder_of(library, tmp_path / "m", {"eos_token": "<|endoftext|>"})
    content = json.loads(library.to_str()) | change
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message) as caught:
        tokenizer_keys(open_model(folder))
    assert "\n" not in str(caught.value)


def test_more_stop_tokens_than_gguf_has_names_for(tmp_path: Path) -> None:
    library = byte_level_library(byte_level("gpt-2"), "gpt-2")
    folder = folder_of(
        library, tmp_path / "m", {"eos_token": "<|endoftext|>"}, eos_token_id=[4, 5, 6]
    )
    with pytest.raises(CheckpointError, match="4 stop tokens cannot be named"):
        tokenizer_keys(open_model(folder))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [4, 5]}))
    assert tokenizer_from_gguf(plain(tokenizer_keys(open_model(folder)))).stop_ids >= {4, 5}


def test_tokens_that_strip_blanks_are_warned_of(tmp_path: Path) -> None:
    library = byte_level_library(byte_level("gpt-2"), "gpt-2")
    library.add_tokens([AddedToken("<mask>", special=True, lstrip=True)])
    folder = folder_of(library, tmp_path / "m", {"eos_token": "<|endoftext|>"})
    with pytest.warns(UserWarning, match="<mask> take blanks around them along"):
        tokenizer_keys(open_model(folder))


def test_falcon_cuts_bytes_that_look_like_digits_and_is_refused(tmp_path: Path) -> None:
    """Its own file looks for digits when texts are bytes already, which no name in GGUF means."""
    library = byte_level_library(byte_level("falcon"), "gpt-2")
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )
    with pytest.raises(CheckpointError, match="cuts words in a way"):
        both(folder_of(library, tmp_path / "m", {"eos_token": "<|endoftext|>"}))


def test_a_whole_target_answers_from_one_file(tmp_path: Path) -> None:
    """Weights and tokenizer of a folder, both in the GGUF file made of it."""
    config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}
    folder = folder_of(sentencepiece_library(True), tmp_path / "m", config, rows=700)
    checkpoint = open_model(folder)
    write_target(tmp_path / "m.gguf", target_file(checkpoint), checkpoint)
    written = open_model(tmp_path / "m.gguf")
    assert isinstance(written, GgufCheckpoint)
    own = tokenizer_from_folder(folder, checkpoint.generation)
    made = tokenizer_from_gguf(written.metadata, written.generation)
    ids = own.encode_prompt("Hello world, naïve façade")
    assert made.encode_prompt("Hello world, naïve façade") == ids
    assert torch.equal(logits_of(tmp_path / "m.gguf", ids), logits_of(folder, ids))
