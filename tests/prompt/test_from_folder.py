"""tokenizer.json: made by the tokenizers library, from the same vocabularies as the GGUF tests."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, WordPiece

from draftwalk.errors import CheckpointError, PromptError
from draftwalk.prompt import Tokenizer, tokenizer_from_folder, tokenizer_from_gguf
from draftwalk.prompt.from_folder import tokenizer_from_json
from draftwalk.prompt.panics import library_failures
from draftwalk.text.stream import TextStream
from support.hostile_texts import hostile_texts
from support.vocabularies import Metadata, byte_level, smollm2, special_texts

NEWER_THAN_LLAMA_CPP = set("\u1c89\U00010d4a\U00010d40\U00013460")


def strings(metadata: Metadata, name: str) -> list[str]:
    value = metadata[f"tokenizer.ggml.{name}"]
    assert isinstance(value, list)
    return value


@cache
def smollm2_library() -> Library:
    """SmolLM2's tokenizer, put together in the way its Hugging Face repository does."""
    metadata = smollm2()
    tokens = strings(metadata, "tokens")
    merges = [tuple(merge.split(" ")) for merge in strings(metadata, "merges")]
    library = Library(BPE({token: index for index, token in enumerate(tokens)}, merges))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special_texts(metadata)]
    )
    return library


def llama_library() -> Library:
    """A tiny SentencePiece-style BPE with byte tokens, as conversions of Llama have it."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", "a", "b", "c", "▁a", "ab", "▁ab", "bc", "é", "▁▁"]
    merges = [("▁", "a"), ("a", "b"), ("▁a", "b"), ("b", "c"), ("▁", "▁")]
    ids = {token: index for index, token in enumerate(tokens)}
    library = Library(BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    library.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    library.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    library.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    library.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return library


def llama(**config: object) -> Tokenizer:
    names: dict[str, object] = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    return tokenizer_from_json(llama_library().to_str(), names | config, {})


def test_both_files_of_smollm2_give_the_same_ids() -> None:
    """Two ways that share no code of ours but the special tokens' kinds."""
    config = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    ours = tokenizer_from_json(smollm2_library().to_str(), config, {})
    by_gguf = tokenizer_from_gguf(smollm2())
    for text in hostile_texts(special_texts(smollm2())):
        if NEWER_THAN_LLAMA_CPP & set(text):
            continue
        assert ours.encode(text) == by_gguf.encode(text), text
        assert ours.encode(text, special=True) == by_gguf.encode(text, special=True), text
    assert ours.stop_ids == by_gguf.stop_ids
    assert (ours.bos_id, ours.eos_id, ours.add_bos) == (1, 2, False)
    for index in range(ours.vocabulary_size):
        assert ours.token_bytes(index, True) == by_gguf.token_bytes(index, True)


def test_special_tokens_in_user_text_stay_text() -> None:
    tokenizer = llama()
    assert tokenizer.encode("<s>", special=True) == [1]
    typed = tokenizer.encode("<s>")
    assert not {0, 1, 2} & set(typed)
    assert tokenizer.decode(typed) == "<s>"
    assert tokenizer.encode("<s>", special=True) == [1], "the switch goes back and forth"


def test_shielded_special_tokens_stay_text() -> None:
    tokenizer = llama()
    ids = tokenizer.encode("<s>" + tokenizer.shield("a</s>b<think>"), special=True)
    assert tokenizer.decode(ids[1:]) == "a</s>b<think>"
    assert (ids[0], 2 in ids) == (1, False)


def test_decoding_equals_the_library() -> None:
    tokenizer, library = llama(), llama_library()
    for text in ("ab c", " ab", "  a", "é🦙", "a<think>b", "", "abc</s>"):
        ids = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids) == library.decode(ids)
        stream = TextStream(tokenizer.token_bytes, strip_space=tokenizer.strips_leading_space)
        for index in ids:
            stream.push(index)
        assert stream.finish() == library.decode(ids)


def test_bytes_of_byte_level_tokens() -> None:
    metadata = byte_level("gpt-2")
    merges = [tuple(merge.split(" ")) for merge in strings(metadata, "merges")]
    tokens = strings(metadata, "tokens")
    library = Library(BPE({token: index for index, token in enumerate(tokens)}, merges))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\s"), "isolated"), pre_tokenizers.ByteLevel(False)]
    )
    library.decoder = decoders.ByteLevel()
    library.add_tokens([AddedToken("é!", special=False)])
    tokenizer = tokenizer_from_json(library.to_str(), {}, {})
    ids = tokenizer.encode("日本 naïve 🦙\x00é!")
    assert b"".join(map(tokenizer.token_bytes, ids)) == "日本 naïve 🦙\x00é!".encode()


def test_bos_as_the_config_or_else_the_post_processor_says() -> None:
    assert llama().encode_prompt("a") == [1, *llama().encode("a")]
    assert llama(add_bos_token=False).encode_prompt("a") == llama().encode("a")
    assert llama(bos_token=None, add_bos_token=True).encode_prompt("a") == llama().encode("a")
    assert llama().encode_prompt("<s>ab", special=True).count(1) == 1


def test_truncation_and_padding_of_the_file_are_off() -> None:
    library = llama_library()
    library.enable_truncation(2)
    library.enable_padding(length=30)
    tokenizer = tokenizer_from_json(library.to_str(), {}, {})
    assert tokenizer.encode("a b c a b c") == llama().encode("a b c a b c")


def test_stop_ids_of_the_tokenizer_and_the_generation_config() -> None:
    tokenizer = tokenizer_from_json(
        llama_library().to_str(), {"eos_token": "</s>"}, {"eos_token_id": [7, 9]}
    )
    assert tokenizer.stop_ids == {2, 7, 9}


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(llama_library().to_str(), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "chat_template": "from the config"})
    )
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"eos_token": "</s>"}))
    tokenizer = tokenizer_from_folder(tmp_path, {"eos_token_id": 5})
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.stop_ids) == (1, 2, {2, 5})
    assert tokenizer.chat_template == "from the config"
    (tmp_path / "chat_template.jinja").write_text("its own file")
    assert tokenizer_from_folder(tmp_path).chat_template == "its own file"


def test_named_chat_templates() -> None:
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    assert llama(chat_template=named).chat_template == "d"
    assert llama(chat_template=named[:1]).chat_template is None


def test_a_vocabulary_with_holes() -> None:
    content = json.loads(llama_library().to_str())
    content["model"]["vocab"]["far"] = 300
    tokenizer = tokenizer_from_json(json.dumps(content), {}, {})
    assert tokenizer.vocabulary_size == 301
    assert (tokenizer.token_bytes(299), tokenizer.token_bytes(300)) == (b"", b"far")
    content["model"]["vocab"]["farther"] = 2**31
    with pytest.raises(CheckpointError, match="has a token 2147483648, but only"):
        tokenizer_from_json(json.dumps(content), {}, {})


def test_unknown_decoders_are_refused_by_name() -> None:
    library = Library(WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    library.decoder = decoders.WordPiece()
    with pytest.raises(CheckpointError, match=r"decoder of tokenizer.json \(WordPiece\)"):
        tokenizer_from_json(library.to_str(), {}, {})
    library.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip("x", 1, 0)])
    with pytest.raises(CheckpointError, match=r"\(Strip\)"):
        tokenizer_from_json(library.to_str(), {}, {})
    library.decoder = decoders.Replace("_", " ")
    with pytest.raises(CheckpointError, match=r"\(Replace\)"):
        tokenizer_from_json(library.to_str(), {}, {})
    content = json.loads(library.to_str())
    content["decoder"] = None
    with pytest.raises(CheckpointError, match=r"\(none\)"):
        tokenizer_from_json(json.dumps(content), {}, {})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "tokenizer.json is not valid JSON"),
        ("[" * 100_000, "tokenizer.json is not valid JSON"),
        ("[]", "tokenizer.json must hold an object"),
        ("{}", "tokenizer.json cannot be used: "),
        ('{"model": {"type": "Magic"}}', "tokenizer.json cannot be used: "),
    ],
)
def test_damaged_files_are_refused_in_one_line(source: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        tokenizer_from_json(source, {}, {})
    assert "\n" not in str(caught.value)


def test_unusable_small_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no tokenizer\.json"):
        tokenizer_from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match="is not UTF-8"):
        tokenizer_from_folder(tmp_path)
    with pytest.raises(CheckpointError, match=r"bos_token of tokenizer_config\.json is '<x>'"):
        llama(bos_token="<x>")
    with pytest.raises(CheckpointError, match=r"bos_token of tokenizer_config\.json must be"):
        llama(bos_token=5)
    with pytest.raises(CheckpointError, match=r"add_bos_token of tokenizer_config\.json"):
        llama(add_bos_token="yes")
    with pytest.raises(CheckpointError, match=r"chat_template of tokenizer_config\.json"):
        llama(chat_template=5)


def test_names_of_chat_templates_may_be_anything() -> None:
    named = [{"name": ["default"], "template": "x"}, {"name": "default", "template": "d"}]
    assert llama(chat_template=named).chat_template == "d"
    assert llama(chat_template=named[:1]).chat_template is None


def test_a_panic_while_loading_is_an_error_of_the_file() -> None:
    content = json.loads(llama_library().to_str())
    content["model"]["continuing_subword_prefix"] = "abc"
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be used: ") as caught:
        tokenizer_from_json(json.dumps(content), {}, {})
    assert "\n" not in str(caught.value)


def test_a_panic_while_encoding_is_an_error_of_the_text() -> None:
    library = llama_library()
    library.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    tokenizer = tokenizer_from_json(library.to_str(), {}, {})
    for _ in range(2):
        with pytest.raises(PromptError, match=r"tokenizer\.json cannot encode this text: "):
            tokenizer.encode("a" * 40 + "b")
        assert tokenizer.decode(tokenizer.encode("ab")) == "ab"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_are_no_failures_of_the_library(kind: type[BaseException]) -> None:
    with pytest.raises(kind), library_failures(CheckpointError):
        raise kind


def test_added_tokens_of_spaces_are_spelled_as_spaces() -> None:
    """Gemma adds runs of ▁ to its vocabulary as tokens of their own."""
    library = llama_library()
    library.add_tokens([AddedToken("▁▁▁", special=False, normalized=False)])
    tokenizer = tokenizer_from_json(library.to_str(), {}, {})
    index = library.token_to_id("▁▁▁")
    a = library.token_to_id("a")
    assert tokenizer.decode([a, index, a]) == library.decode([a, index, a]) == "a   a"
