from pathlib import Path

import pytest

from draftwalk.errors import UserError
from draftwalk.fetch.hub import choice
from draftwalk.fetch.hub.choice import choose, shards
from draftwalk.fetch.hub.name import HubName, is_hub_name, parse
from draftwalk.weights import safetensors_folder

FOLDER = ("config.json", "model.safetensors")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("o/n", HubName("o/n")),
        ("Qwen/Qwen3-0.6B", HubName("Qwen/Qwen3-0.6B")),
        ("o_1/n.x:Q8_0", HubName("o_1/n.x", "Q8_0")),
        ("o/n:sub/n-Q8_0.gguf", HubName("o/n", "sub/n-Q8_0.gguf")),
    ],
)
def test_names_are_read(text: str, name: HubName) -> None:
    assert parse(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "n", "o/", "/n", "o/n/m", "o//n", "./n", "../n", "o/..", "o/n.", "o/.n", "-o/n"),
        *("o/n--m", "o/n..m", "o/n.git", "o/n:", "o/n:../x", "o/n:/x", "o/n:Q 8", "o /n", "o/n\n"),
        *("o/" + "n" * 95, "o/n:" + "Q" * 201, "ö/n", "https://x.y/n"),
    ],
)
def test_other_texts_are_no_names(text: str) -> None:
    assert not is_hub_name(text)
    with pytest.raises(UserError, match="names no model of the hub") as raised:
        parse(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("tag", "files", "chosen"),
    [
        (None, ["n-Q5_0.gguf"], "n-Q5_0.gguf"),
        (None, ["n-Q8_0.gguf", "n-Q4_K_M.gguf", "n-F16.gguf"], "n-Q4_K_M.gguf"),
        (None, ["n.q8_0.gguf", "n.f16.gguf"], "n.q8_0.gguf"),
        (None, ["n-Q8_0.gguf", "mmproj-F16.gguf", "imatrix.gguf"], "n-Q8_0.gguf"),
        ("f16", ["n-F16.gguf", "mmproj-F16.gguf", *FOLDER], "n-F16.gguf"),
        ("F16", ["n-BF16.gguf", "n-F16.gguf"], "n-F16.gguf"),
        ("Q4_K", ["n-Q4_K_M.gguf", "n-Q4_K.gguf"], "n-Q4_K.gguf"),
        ("Q4_0", ["n-IQ4_0.gguf", "n-Q4_0.gguf"], "n-Q4_0.gguf"),
        ("Q4_0", ["Q4_0/n.gguf", "Q8_0/n.gguf"], "Q4_0/n.gguf"),
        ("UD-Q4_K_M", ["n-UD-Q4_K_M.gguf", "n-Q4_K_M.gguf"], "n-UD-Q4_K_M.gguf"),
        ("mmproj-F16.gguf", ["n-F16.gguf", "mmproj-F16.gguf"], "mmproj-F16.gguf"),
        ("Q4_K_M/n.gguf", ["Q4_K_M/n.gguf", "n-Q4_K_M.gguf"], "Q4_K_M/n.gguf"),
        (None, ["config.json", "n.gguf"], "n.gguf"),
    ],
)
def test_one_gguf_file_is_chosen(tag: str | None, files: list[str], chosen: str) -> None:
    found = choose(HubName("o/n", tag), [*files, "README.md"])
    assert found.gguf == chosen
    assert found.files == (chosen, "README.md")
    assert not found.is_sharded


@pytest.mark.parametrize(
    ("tag", "files", "message"),
    [
        (None, [], "neither a GGUF file nor config.json"),
        (None, ["pytorch_model.bin", "config.json"], "pickles"),
        (None, ["model.safetensors"], "neither"),
        ("Q8_0", list(FOLDER), "neither a GGUF file"),
        (None, ["a.gguf", "b.gguf"], r"has 2 GGUF files and none in Q4_K_M or Q8_0.*a\.gguf, b"),
        ("Q5_0", ["a-Q8_0.gguf"], r"no GGUF file Q5_0 \(it has a-Q8_0\.gguf\)"),
        ("Q8_0", ["a-Q8_0.gguf", "b-Q8_0.gguf"], r"2 GGUF files that could be Q8_0.*o/n:FILE"),
        ("Q8_0", ["a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00002-of-00003.gguf"], "into 3 files"),
        (None, ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"], "into 2 files"),
        (None, ["a-00001-of-00002.gguf"], "split into 2 files, which is not implemented"),
        ("a-00002-of-00002.gguf", ["a-00002-of-00002.gguf"], "llama-gguf-split --merge"),
        ("Q2_K", [f"{n}.gguf" for n in range(40)], "and 34 more"),
    ],
)
def test_no_choice_is_told(tag: str | None, files: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        choose(HubName("o/n", tag), files)
    assert "\n" not in str(raised.value)


def test_a_folder_comes_before_gguf_files() -> None:
    files = [*FOLDER, "n-Q8_0.gguf", "README.md", "tokenizer.json", "x.py", "optimizer.pt"]
    found = choose(HubName("o/n"), files)
    assert found.gguf is None
    assert set(found.files) == {*FOLDER, "tokenizer.json", "README.md"}


def test_what_is_fetched_is_what_a_folders_reader_reads() -> None:
    read = {
        *(safetensors_folder.CONFIG, safetensors_folder.GENERATION),
        *safetensors_folder._TOKENIZER_FILES,
    }
    assert read == set(choice.SMALL_FILES)
    assert choice.WEIGHTS == safetensors_folder.WEIGHTS
    assert choice.INDEX == safetensors_folder.INDEX_FILE


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "7", "[" * 100_000, '{"weight_map": 7}', '{"weight_map": {"a": 5}}'),
        *('{"weight_map": {"a": "../x.safetensors"}}', '{"weight_map": {"a": "x.bin"}}'),
        *('{"weight_map": {"a": ["x"]}}', '{"weight_map": {"a": "x.safetensors", "b": 7}}'),
    ],
)
def test_an_index_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "index"
    path.write_text(text)
    with pytest.raises(UserError, match="lists no safetensors files"):
        shards(path, HubName("o/n"))
