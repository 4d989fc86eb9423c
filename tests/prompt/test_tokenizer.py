from __future__ import annotations

import numpy as np
import pytest

from draftwalk.errors import CheckpointError, PromptError, UserError
from draftwalk.prompt import tokenizer_from_gguf
from draftwalk.text.stream import TextStream
from support.vocabularies import Metadata, byte_level, sentencepiece

KEY = "tokenizer.ggml."


def changed(metadata: Metadata, **changes: object) -> Metadata:
    """With keys replaced, or removed where the value is None."""
    merged = metadata | {KEY + name: value for name, value in changes.items()}
    return {key: value for key, value in merged.items() if value is not None}


def test_arrays_may_be_numpy() -> None:
    for metadata in (byte_level("qwen2"), sentencepiece("llama")):
        arrays = {k: np.array(v) if isinstance(v, list) else v for k, v in metadata.items()}
        text = "Hello  world\n12"
        assert tokenizer_from_gguf(arrays).encode(text) == tokenizer_from_gguf(metadata).encode(
            text
        )


def test_bos_is_never_doubled() -> None:
    tokenizer = tokenizer_from_gguf(byte_level("llama-bpe"))
    bos = tokenizer.bos_id
    assert bos is not None
    assert tokenizer.encode_prompt("a", special=True)[0] == bos
    rendered = tokenizer.encode_prompt("<|im_start|>a", special=True)
    assert rendered[0] == bos
    assert rendered.count(bos) == 1
    typed = tokenizer.encode_prompt("<|im_start|>a")
    assert typed[0] == bos
    assert typed[1:] == tokenizer.encode("<|im_start|>a")


def test_encode_never_adds_bos() -> None:
    for metadata in (byte_level("llama-bpe"), sentencepiece("llama")):
        tokenizer = tokenizer_from_gguf(metadata)
        assert tokenizer.encode("") == []
        assert tokenizer.bos_id not in tokenizer.encode("a", special=True)
        assert tokenizer.encode_prompt("") == [tokenizer.bos_id]


def test_the_file_says_whether_bos_is_added() -> None:
    llama = tokenizer_from_gguf(changed(sentencepiece("llama"), add_bos_token=False))
    assert llama.encode_prompt("a") == llama.encode("a")
    qwen = tokenizer_from_gguf(changed(byte_level("qwen2"), add_bos_token=True))
    assert qwen.encode_prompt("a")[0] == qwen.bos_id


def test_without_bos_and_eos() -> None:
    metadata = changed(byte_level("llama-bpe"), bos_token_id=None, eos_token_id=None)
    tokenizer = tokenizer_from_gguf(metadata)
    assert (tokenizer.bos_id, tokenizer.eos_id) == (None, None)
    assert (tokenizer.bos_text, tokenizer.eos_text) == ("", "")
    assert tokenizer.encode_prompt("a") == tokenizer.encode("a")
    assert tokenizer.stop_ids, "known by their text"
    with pytest.raises(CheckpointError, match="names no BOS token"):
        tokenizer_from_gguf(changed(metadata, add_bos_token=True))


def test_sentencepiece_numbers_its_own_special_tokens() -> None:
    metadata = changed(
        sentencepiece("llama"), bos_token_id=None, eos_token_id=None, unknown_token_id=None
    )
    tokenizer = tokenizer_from_gguf(metadata)
    assert (tokenizer.bos_id, tokenizer.eos_id) == (1, 2)
    kinds = list(metadata[KEY + "token_type"])  # type: ignore[call-overload]
    kinds[1] = kinds[2] = 1
    plain = tokenizer_from_gguf(changed(metadata, token_type=kinds))
    assert (plain.bos_id, plain.eos_id, plain.add_bos) == (None, None, False)


def test_an_id_may_say_that_there_is_none() -> None:
    for nothing in (0xFFFFFFFF, -1):
        metadata = changed(sentencepiece("llama"), bos_token_id=nothing)
        assert tokenizer_from_gguf(metadata).bos_id is None


def test_stop_ids_are_a_union() -> None:
    metadata = changed(byte_level("qwen2"), eot_token_id=70, eom_token_id=71, eos_token_id=72)
    known = tokenizer_from_gguf(metadata).stop_ids
    assert {70, 71, 72} < known, "and those known by their text"
    assert tokenizer_from_gguf(metadata, {"eos_token_id": 5}).stop_ids == known | {5}
    assert tokenizer_from_gguf(metadata, {"eos_token_id": [5, 6]}).stop_ids == known | {5, 6}
    assert tokenizer_from_gguf(metadata, {"eos_token_id": None}).stop_ids == known


@pytest.mark.parametrize("value", ["2", True, -3, [1, "2"], 1.0])
def test_a_generation_config_without_ids_is_refused(value: object) -> None:
    with pytest.raises(CheckpointError, match="eos_token_id must be token ids"):
        tokenizer_from_gguf(byte_level("qwen2"), {"eos_token_id": value})


def test_special_tokens_show_their_text_only_when_asked() -> None:
    tokenizer = tokenizer_from_gguf(byte_level("qwen2"))
    ids = tokenizer.encode("<|im_start|>a<think>", special=True)
    assert tokenizer.decode(ids) == "a<think>"
    assert tokenizer.decode(ids, special=True) == "<|im_start|>a<think>"
    assert tokenizer.bos_text == "<|im_start|>"


def test_ids_outside_the_vocabulary() -> None:
    tokenizer = tokenizer_from_gguf(byte_level("qwen2"))
    assert tokenizer.token_bytes(tokenizer.vocabulary_size) == b"", "a padding row"
    with pytest.raises(PromptError, match="-1 is no token id"):
        tokenizer.decode([-1])


def test_half_surrogates_count_as_replacement_characters() -> None:
    tokenizer = tokenizer_from_gguf(byte_level("gpt-2"))
    assert tokenizer.encode("a\ud83e\udd99b") == tokenizer.encode("a🦙b")
    assert tokenizer.encode("\ud83e \udd99\udcff") == tokenizer.encode("\ufffd \ufffd\ufffd")


def test_streaming_equals_decoding_with_a_space_in_front() -> None:
    for style in ("llama", "gemma"):
        tokenizer = tokenizer_from_gguf(sentencepiece(style))
        ids = tokenizer.encode(" Hello 🦙  日本")
        stream = TextStream(tokenizer.token_bytes, strip_space=tokenizer.strips_leading_space)
        pieces = []
        for index in ids:
            stream.push(index)
            pieces.append(stream.take())
        assert "".join([*pieces, stream.finish()]) == tokenizer.decode(ids) == " Hello 🦙  日本"


def test_a_character_without_byte_tokens_becomes_the_unknown_token() -> None:
    metadata = sentencepiece("llama")
    tokens = ["(gone)" if text == "<0xF0>" else text for text in strings(metadata, "tokens")]
    kinds = list(metadata[KEY + "token_type"])  # type: ignore[call-overload]
    kinds[tokens.index("(gone)")] = 1
    metadata = changed(metadata, tokens=tokens, token_type=kinds)
    assert tokenizer_from_gguf(metadata).encode("🦙")[-1] == 0
    nameless = changed(metadata, unknown_token_id=-1)
    with pytest.raises(PromptError, match="no token for '🦙'"):
        tokenizer_from_gguf(nameless).encode("🦙")


def test_the_chat_template_is_kept() -> None:
    assert tokenizer_from_gguf(byte_level("qwen2")).chat_template is None
    metadata = byte_level("qwen2") | {"tokenizer.chat_template": "{{ broken"}
    assert tokenizer_from_gguf(metadata).chat_template == "{{ broken"
    with pytest.raises(CheckpointError, match=r"chat_template must be a string"):
        tokenizer_from_gguf(metadata | {"tokenizer.chat_template": 5})


def strings(metadata: Metadata, name: str) -> list[str]:
    value = metadata[KEY + name]
    assert isinstance(value, list)
    return value


def duplicated(metadata: Metadata) -> list[str]:
    tokens = strings(metadata, "tokens")
    return [*tokens[:-1], tokens[3]]


def with_byte_token(text: str) -> Metadata:
    metadata = sentencepiece("llama")
    tokens = strings(metadata, "tokens")
    return changed(metadata, tokens=[text if token == "<0x0A>" else token for token in tokens])


QWEN2 = byte_level("qwen2")
LLAMA = sentencepiece("llama")
SIZE = len(strings(QWEN2, "tokens"))
LLAMA_SIZE = len(strings(LLAMA, "tokens"))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (changed(QWEN2, model="t5"), "the tokenizer kind 't5' is not implemented"),
        (changed(QWEN2, model=None), "the tokenizer kind None is not implemented"),
        (changed(QWEN2, model=7), "tokenizer.ggml.model must be a string, not int"),
        (changed(QWEN2, pre="tekken"), "needs the pre-tokenizer 'tekken'"),
        (changed(QWEN2, pre=None), "names no pre-tokenizer"),
        (changed(QWEN2, frobnicate=1), "key tokenizer.ggml.frobnicate is not implemented"),
        (changed(QWEN2, tokens=None), "tokens must be an array of strings, not missing"),
        (changed(QWEN2, tokens="abc"), "tokens must be an array of strings, not str"),
        (changed(QWEN2, tokens=[1, 2]), r"tokens\[0\] must be a string, not int"),
        (changed(QWEN2, tokens=np.zeros(4, np.uint8)), r"tokens\[0\] must be a string, not int"),
        (changed(QWEN2, tokens=[], token_type=[]), "an empty vocabulary"),
        (changed(QWEN2, tokens=duplicated(QWEN2)), r"tokens 3 and \d+ are both "),
        (changed(QWEN2, token_type=[1]), r"token_type has 1 entries, but there are \d+ tokens"),
        (changed(QWEN2, token_type=[1.5] * SIZE), "must be an array of integers, not of float64"),
        (changed(QWEN2, token_type=["1"] * SIZE), "must be an array of integers"),
        (changed(QWEN2, token_type=[True] * SIZE), "must be an array of integers, not of bool"),
        (changed(QWEN2, token_type=[[1]] * SIZE), "must be an array of integers"),
        (changed(QWEN2, token_type=[2**70] * SIZE), "must be an array of integers"),
        (changed(QWEN2, token_type=5), "token_type must be an array of numbers, not int"),
        (changed(QWEN2, merges=None), "merges must be an array of strings, not missing"),
        (changed(QWEN2, merges=["ab"]), r"merges\[0\] is 'ab': not two tokens"),
        (changed(QWEN2, merges=["a q", "h zz"]), r"merges\[0\] is 'a q': not two tokens"),
        (changed(QWEN2, bos_token_id=SIZE), r"bos_token_id is \d+, but the vocabulary has \d+"),
        (changed(QWEN2, eos_token_id="2"), "eos_token_id must be a token id, not '2'"),
        (changed(QWEN2, eos_token_id=True), "eos_token_id must be a token id, not True"),
        (changed(QWEN2, eot_token_id=-7), "eot_token_id is -7"),
        (changed(QWEN2, add_bos_token=1), "add_bos_token must be true or false, not 1"),
        (changed(LLAMA, token_type=None), "token_type is missing"),
        (changed(LLAMA, scores=None), "scores must be an array of numbers, not missing"),
        (changed(LLAMA, scores=[0.0]), "scores has 1 entries"),
        (changed(LLAMA, scores=["0"] * LLAMA_SIZE), "scores must be an array of numbers, not of"),
        (changed(LLAMA, scores=[float("nan")] * LLAMA_SIZE), "scores has NaN in it"),
        (changed(LLAMA, add_space_prefix="yes"), "add_space_prefix must be true or false"),
        (with_byte_token("<0xZZ>"), "is typed as a byte but spelled '<0xZZ>'"),
        (with_byte_token("<0x-1>"), "is typed as a byte but spelled '<0x-1>'"),
        (with_byte_token("<0x100>"), "is typed as a byte but spelled '<0x100>'"),
    ],
)
def test_damaged_metadata_is_refused_in_one_line(metadata: Metadata, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        tokenizer_from_gguf(metadata)
    assert "\n" not in str(caught.value)


def test_unusual_but_readable_metadata_is_read() -> None:
    whole = tokenizer_from_gguf(LLAMA).encode("Hello world")
    assert tokenizer_from_gguf(changed(LLAMA, pre=None)).encode("Hello world") == whole
    integers = [int(score) for score in LLAMA[KEY + "scores"]]  # type: ignore[attr-defined]
    assert tokenizer_from_gguf(changed(LLAMA, scores=integers)).encode("Hello world") == whole
    untyped = tokenizer_from_gguf(changed(QWEN2, token_type=None))
    assert untyped.encode("Hello") == tokenizer_from_gguf(QWEN2).encode("Hello")
    repeated = strings(QWEN2, "merges")
    again = tokenizer_from_gguf(changed(QWEN2, merges=[*repeated, repeated[0]]))
    assert again.encode("Hello the") == tokenizer_from_gguf(QWEN2).encode("Hello the")


def test_a_token_that_is_no_unicode_keeps_its_bytes() -> None:
    tokens = [*strings(QWEN2, "tokens")[:-1], "a\udcffb"]
    tokenizer = tokenizer_from_gguf(changed(QWEN2, tokens=tokens))
    assert tokenizer.token_bytes(len(tokens) - 1) == b"a\xffb"
    assert tokenizer.encode("Hello") == tokenizer_from_gguf(QWEN2).encode("Hello")


def test_empty_tokens_are_never_produced() -> None:
    tokens = ["" if i >= SIZE - 2 else token for i, token in enumerate(strings(QWEN2, "tokens"))]
    tokenizer = tokenizer_from_gguf(changed(QWEN2, tokens=tokens))
    assert tokenizer.token_bytes(SIZE - 1) == b""
    assert not {SIZE - 1, SIZE - 2} & set(tokenizer.encode("Hello <think>", special=True))


def test_user_text_cannot_be_merged_into_a_special_token() -> None:
    """Where "<s" is a token, llama.cpp merges a typed "<s>" into BOS; here it stays text."""
    tokens = [*strings(LLAMA, "tokens"), "<s"]
    kinds = [*LLAMA[KEY + "token_type"], 1]  # type: ignore[misc]
    scores = [*LLAMA[KEY + "scores"], -1.0]  # type: ignore[misc]
    metadata = changed(LLAMA, tokens=tokens, token_type=kinds, scores=scores)
    tokenizer = tokenizer_from_gguf(metadata)
    assert tokenizer.decode(tokenizer.encode("<s> a")) == "<s> a"
    assert 1 not in tokenizer.encode("<s> a")
    assert tokenizer.encode("<s> a", special=True)[0] == 1


def test_the_html_tag_ends_nothing() -> None:
    tokens = [*strings(QWEN2, "tokens"), "</s>"]
    kinds = [*QWEN2[KEY + "token_type"], 1]  # type: ignore[misc]
    metadata = changed(QWEN2, tokens=tokens, token_type=kinds)
    html = tokenizer_from_gguf(metadata)
    assert len(tokens) - 1 not in html.stop_ids
    assert html.token_bytes(len(tokens) - 1) == b"</s>"
    control = tokenizer_from_gguf(changed(metadata, token_type=[*kinds[:-1], 3]))
    assert len(tokens) - 1 in control.stop_ids


def test_an_end_of_turn_that_is_typed_as_normal_still_ends() -> None:
    kinds = [1] * SIZE
    tokenizer = tokenizer_from_gguf(changed(QWEN2, token_type=kinds))
    end = strings(QWEN2, "tokens").index("<|im_end|>")
    assert end in tokenizer.stop_ids
    assert tokenizer.token_bytes(end) == b""
    assert tokenizer.encode("<|im_end|>", special=True) == [end]
    assert end not in tokenizer.encode("<|im_end|>")
