"""Models of the hub, from a stub on this host that speaks its API."""

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download, try_to_load_from_cache

from draftwalk.errors import UserError
from draftwalk.fetch import Store, find, find_on_hub, resolve
from draftwalk.fetch.hub import Hub, HubSettings
from support.hub_server import StubHub, StubModel, serving_hub, sum_of

MODEL = b"GGUF" + bytes(range(256)) * 4000
OTHER = b"GGUF" + bytes(reversed(range(256))) * 3000
SHARD = bytes(range(256)) * 2000
CARD = b"---\nbase_model: base/target\n---\n# A model\n"
INDEX = b'{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}'

GGUFS = {"m.Q8_0.gguf": MODEL, "m.Q4_K_M.gguf": OTHER, "README.md": CARD, "LICENSE": b"free"}
FOLDER = {
    "config.json": b"{}",
    "tokenizer.json": b'{"model": {}}',
    "model.safetensors": SHARD,
    "pytorch_model.bin": b"never fetched",
    "README.md": CARD,
}
SHARDED = {
    "config.json": b"{}",
    "model.safetensors.index.json": INDEX,
    "model-1.safetensors": SHARD,
    "model-2.safetensors": SHARD[::-1],
    "consolidated.safetensors": b"never fetched",
}


def stub() -> StubHub:
    return StubHub(
        {
            "o/ggufs": StubModel(GGUFS),
            "o/folder": StubModel(FOLDER),
            "o/sharded": StubModel(SHARDED),
            "o/private": StubModel(FOLDER, token="right"),
            "o/gated": StubModel(FOLDER, gated=True),
        }
    )


@contextmanager
def store_of(
    cache: Path, hub: StubHub, token: str | None = None
) -> Iterator[tuple[Store, list[tuple[int, int | None]]]]:
    told: list[tuple[int, int | None]] = []
    with serving_hub(hub) as endpoint:
        yield (
            Store(
                cache / "unused",
                progress=lambda done, total: told.append((done, total)),
                entries=(),
                hub_settings=lambda offline: HubSettings(endpoint, cache, token, offline),
            ),
            told,
        )


def offline_store(cache: Path) -> Store:
    return Store(
        cache / "unused",
        offline=True,
        entries=(),
        hub_settings=lambda offline: HubSettings("http://index.invalid", cache, None, offline),
    )


def answer(file: str) -> bytes:
    """What the API tells of a model with one file."""
    return ('{"sha": "' + "0" * 40 + '", "siblings": [' + file + "]}").encode()


def left_over(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.suffix in {".incomplete", ".partial"}]


def test_a_gguf_file_is_fetched_once(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, told):
        found = find("o/ggufs:q8_0", store)
        assert found.path.name == "m.Q8_0.gguf"
        assert found.path.read_bytes() == MODEL
        assert found.path.is_symlink()  # kept once, whatever it is called
        assert found.path.resolve().name == sum_of("m.gguf", MODEL)
        assert found.repo == "o/ggufs"
        assert found.card.base_models == ("base/target",)
        assert told[-1] == (len(MODEL) + len(CARD), len(MODEL) + len(CARD))
        assert sorted(hub.files_asked()) == ["README.md", "m.Q8_0.gguf"]

        hub.asked.clear()
        assert find("o/ggufs:Q8_0", store) == found
        assert hub.files_asked() == []
    assert find("o/ggufs:Q8_0", offline_store(tmp_path)) == found
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("tag", ["m.Q8_0.gguf", "Q8_0", "q8_0"])
def test_a_tag_is_a_quantisation_or_a_file(tmp_path: Path, tag: str) -> None:
    with store_of(tmp_path, stub()) as (store, _):
        assert find(f"o/ggufs:{tag}", store).path.name == "m.Q8_0.gguf"


def test_without_a_tag_the_usual_quantisation_is_taken(tmp_path: Path) -> None:
    with store_of(tmp_path, stub()) as (store, _):
        assert resolve("o/ggufs", store).name == "m.Q4_K_M.gguf"


def test_a_folder_is_fetched_without_what_nobody_reads(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, _):
        found = find_on_hub("o/folder", store)
    wanted = set(FOLDER) - {"pytorch_model.bin"}
    assert {path.name for path in found.path.iterdir()} == wanted
    assert (found.path / "model.safetensors").read_bytes() == SHARD
    assert set(hub.files_asked()) == wanted
    assert resolve("o/folder", offline_store(tmp_path)) == found.path


def test_shards_are_those_the_index_names(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, told):
        path = resolve("o/sharded", store)
    assert {one.name for one in path.iterdir()} == set(SHARDED) - {"consolidated.safetensors"}
    assert told[-1] == (2 * len(SHARD) + 2, 2 * len(SHARD) + 2)  # the index came before
    (path / "model-2.safetensors").unlink()
    with pytest.raises(UserError, match=r"lacks model-2\.safetensors, as far as the hub's cache"):
        resolve("o/sharded", offline_store(tmp_path))


def test_what_is_fetched_the_hubs_own_library_finds(tmp_path: Path) -> None:
    with store_of(tmp_path, stub()) as (store, _):
        path = resolve("o/ggufs:Q8_0", store)
        folder = resolve("o/folder", store)
    assert try_to_load_from_cache("o/ggufs", "m.Q8_0.gguf", tmp_path) == str(path)
    found = hf_hub_download("o/folder", "config.json", cache_dir=tmp_path, local_files_only=True)
    assert Path(found).parent == folder


def test_what_the_hubs_own_library_fetched_is_used(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, _):
        for file in ("m.Q8_0.gguf", "README.md"):
            found = hf_hub_download(
                "o/ggufs", file, cache_dir=tmp_path, endpoint=hub.endpoint, token=False
            )
            assert Path(found).read_bytes() == GGUFS[file]
        hub.asked.clear()
        path = resolve("o/ggufs:Q8_0", store)
        assert path.read_bytes() == MODEL
        assert hub.files_asked() == []
    assert resolve("o/ggufs:Q8_0", offline_store(tmp_path)) == path


def test_a_connection_that_breaks_is_resumed(tmp_path: Path) -> None:
    hub = replace(stub(), cuts=[300_000, 200_000])
    with store_of(tmp_path, hub) as (store, told):
        assert resolve("o/ggufs:Q8_0", store).read_bytes() == MODEL
    ranges = [one.range for one in hub.asked if "/cdn/" in one.path]
    assert ranges == [None, "bytes=300000-", "bytes=500000-"]
    assert any(done == 500_000 for done, _ in told)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_later_run_goes_on_where_an_earlier_one_stopped(tmp_path: Path, ranges: bool) -> None:
    hub = replace(stub(), cuts=[500_000, 0, 0, 0, 0])
    with (
        store_of(tmp_path, hub) as (store, _),
        pytest.raises(UserError, match="goes on where it stopped"),
    ):
        resolve("o/ggufs:Q8_0", store)
    assert [path.stat().st_size for path in left_over(tmp_path)] == [500_000]
    with pytest.raises(UserError, match="not in the hub's cache"):
        resolve("o/ggufs:Q8_0", offline_store(tmp_path))

    hub = replace(stub(), ranges=ranges)
    with store_of(tmp_path, hub) as (store, _):
        assert resolve("o/ggufs:Q8_0", store).read_bytes() == MODEL
    assert [one.range for one in hub.asked if "/cdn/" in one.path] == ["bytes=500000-"]
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(("file", "kind"), [("m.Q8_0.gguf", "SHA-256"), ("README.md", "Git SHA-1")])
def test_changed_data_is_refused_and_not_kept(tmp_path: Path, file: str, kind: str) -> None:
    changed = GGUFS[file][:-1] + b"!"
    with (
        store_of(tmp_path, replace(stub(), served={file: changed})) as (store, _),
        pytest.raises(UserError, match=rf"{file} of o/ggufs was downloaded, but its {kind}"),
    ):
        resolve("o/ggufs:Q8_0", store)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert changed not in [path.read_bytes() for path in kept]
    assert left_over(tmp_path) == []
    assert not (tmp_path / "models--o--ggufs" / "refs").exists()


def test_a_longer_file_than_was_told_is_cut_off(tmp_path: Path) -> None:
    with (
        store_of(tmp_path, replace(stub(), served={"m.Q8_0.gguf": MODEL * 9})) as (store, _),
        pytest.raises(UserError, match="far too many"),
    ):
        resolve("o/ggufs:Q8_0", store)


def test_a_wrong_part_is_thrown_away(tmp_path: Path) -> None:
    partial = tmp_path / "models--o--ggufs" / "blobs" / f"{sum_of('m.gguf', MODEL)}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"?" * 1000)
    with store_of(tmp_path, stub()) as (store, _):
        assert resolve("o/ggufs:Q8_0", store).read_bytes() == MODEL


def test_a_shorter_copy_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    with store_of(tmp_path, stub()) as (store, _):
        path = resolve("o/ggufs:Q8_0", store)
        path.resolve().write_bytes(MODEL[:-9])
        assert resolve("o/ggufs:Q8_0", store).read_bytes() == MODEL


def test_where_links_are_not_to_be_had_files_are_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, _to: str) -> None:
        raise OSError("a required privilege is not held")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    hub = stub()
    with store_of(tmp_path, hub) as (store, _):
        path = resolve("o/ggufs:Q8_0", store)
        hub.asked.clear()
        assert resolve("o/ggufs:Q8_0", store) == path
        assert hub.files_asked() == []
    assert path.read_bytes() == MODEL
    assert not [*(tmp_path / "models--o--ggufs" / "blobs").iterdir()]


def test_two_at_a_time_fetch_once(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, _), ThreadPoolExecutor(4) as threads:
        found = [threads.submit(resolve, "o/folder", store) for _ in range(4)]
        assert len({one.result() for one in found}) == 1
    assert hub.files_asked().count("model.safetensors") == 1


def test_a_new_commit_is_followed(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, _):
        old = resolve("o/ggufs:Q8_0", store)
        hub.models["o/ggufs"] = StubModel({**GGUFS, "m.Q8_0.gguf": OTHER})
        hub.asked.clear()
        new = resolve("o/ggufs:Q8_0", store)
        assert new.read_bytes() == OTHER
        assert hub.files_asked() == ["m.Q8_0.gguf"]  # the card is the same content
    assert old.read_bytes() == MODEL
    assert resolve("o/ggufs:Q8_0", offline_store(tmp_path)) == new


def test_the_token_goes_to_the_hub_only(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub, token="right") as (store, _):
        resolve("o/private", store)
    to_network = [one.token for one in hub.asked if one.path.startswith("/cdn/")]
    to_hub = [one.token for one in hub.asked if not one.path.startswith("/cdn/")]
    assert set(to_network) == {None}
    assert set(to_hub) == {"right"}
    assert any(one.path.startswith("/small/") for one in hub.asked)  # redirected to itself


@pytest.mark.parametrize(
    ("model", "token", "message"),
    [
        ("o/nothing", None, r"the hub has no model o/nothing, or not for everybody \(check"),
        ("o/nothing", "right", r"the hub has no model o/nothing, or not for everybody \(check"),
        ("o/private", None, "the hub has no model o/private, or not for everybody.*HF_TOKEN"),
        ("o/private", "wrong", r"does not accept the token for o/private \(.*HF_TOKEN"),
        ("o/gated", None, "o/gated is given only to those.*ask for it on its page"),
        ("o/ggufs:Q5_K", None, r"no GGUF file Q5_K \(it has m\.Q4_K_M\.gguf, m\.Q8_0\.gguf\)"),
    ],
)
def test_what_the_hub_does_not_give_is_told(
    tmp_path: Path, model: str, token: str | None, message: str
) -> None:
    with (
        store_of(tmp_path, stub(), token) as (store, _),
        pytest.raises(UserError, match=message) as raised,
    ):
        resolve(model, store)
    assert "\n" not in str(raised.value)


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, _):
        listing = hub.models["o/ggufs"]
        hub.body = (
            b'{"sha": "%s", "siblings": [{"rfilename": "gone.gguf", "size": 9, "blobId": "%s"}]}'
            % (listing.commit.encode(), b"0" * 40)
        )
        with pytest.raises(UserError, match=r"gone\.gguf of o/ggufs: the server says 404"):
            resolve("o/ggufs", store)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"sha": "../../x", "siblings": []}',
        b'{"sha": "%s", "siblings": 7}' % (b"0" * 40),
        b'{"sha": "%s", "siblings": [{}]}' % (b"0" * 40),
        b'{"sha": "%s", "siblings": ["a.gguf"]}' % (b"0" * 40),
    ],
)
def test_an_answer_that_is_none_is_told(tmp_path: Path, body: bytes) -> None:
    with (
        store_of(tmp_path, replace(stub(), body=body)) as (store, _),
        pytest.raises(UserError, match="o/ggufs is not understood"),
    ):
        resolve("o/ggufs", store)


@pytest.mark.parametrize(
    "told",
    [
        '"size": -1, "blobId": "%s"' % ("0" * 40),
        '"size": true, "blobId": "%s"' % ("0" * 40),
        '"size": 1, "blobId": "../../../x"',
        '"size": 1',
        '"size": 1, "lfs": {"sha256": "../x"}',
        '"size": 1, "lfs": {"sha256": 5, "size": "9"}',
    ],
)
def test_files_without_size_or_sum_are_not_fetched(tmp_path: Path, told: str) -> None:
    body = answer('{"rfilename": "a.gguf", ' + told + "}")
    with (
        store_of(tmp_path, replace(stub(), body=body)) as (store, _),
        pytest.raises(UserError, match=r"size and sum of a\.gguf"),
    ):
        resolve("o/ggufs", store)


@pytest.mark.parametrize(
    "path",
    ["../a.gguf", "/a.gguf", "x/../a.gguf", "x//a.gguf", "..\\\\a.gguf", "c:a.gguf", "a/ /b.gguf"],
)
def test_paths_that_lead_elsewhere_are_not_taken(tmp_path: Path, path: str) -> None:
    body = answer(f'{{"rfilename": "{path}", "size": 1, "blobId": "{"0" * 40}"}}')
    with (
        store_of(tmp_path, replace(stub(), body=body)) as (store, _),
        pytest.raises(UserError, match="has neither a GGUF file nor"),
    ):
        resolve("o/ggufs", store)


def test_a_moment_of_trouble_is_waited_for(tmp_path: Path) -> None:
    with store_of(tmp_path, replace(stub(), statuses=[503])) as (store, _):
        assert resolve("o/ggufs:Q8_0", store).read_bytes() == MODEL


def test_without_network_the_cache_is_used_and_said(tmp_path: Path) -> None:
    with store_of(tmp_path, stub()) as (store, _):
        path = resolve("o/ggufs:Q8_0", store)
    with pytest.warns(UserWarning, match="hub cannot be asked for o/ggufs.*cache has is used"):
        assert resolve("o/ggufs:Q8_0", store) == path
    with store_of(tmp_path, replace(stub(), statuses=[500, 500])) as (store, _):
        with pytest.warns(UserWarning, match="it says 500"):
            assert resolve("o/ggufs:Q8_0", store) == path
        hub_less = resolve("o/ggufs:Q8_0", store)
    assert hub_less == path
    with (
        pytest.warns(UserWarning, match="cache has is used"),
        pytest.raises(UserError, match=r"no GGUF file Q4_K_M, as far as the hub's cache goes"),
    ):
        resolve("o/ggufs:Q4_K_M", store)
    with pytest.raises(UserError, match=r"cannot be asked for o/folder: .*is there a network"):
        resolve("o/folder", store)


def test_offline_nothing_is_asked(tmp_path: Path) -> None:
    hub = stub()
    with store_of(tmp_path, hub) as (store, _), warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve("o/ggufs:Q8_0", store)
        hub.asked.clear()
        offline = replace(store, offline=True)
        assert resolve("o/ggufs", offline).name == "m.Q8_0.gguf"  # the only one there
        with pytest.raises(UserError, match=r"o/folder is to be used offline, but is not in"):
            resolve("o/folder", offline)
    assert hub.asked == []


@pytest.mark.parametrize("ref", [b"", b"../../..", b"0" * 40, b"\xff" * 40, b"x" * 5000])
def test_a_strange_cache_is_no_model(tmp_path: Path, ref: bytes) -> None:
    refs = tmp_path / "models--o--ggufs" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_bytes(ref)
    with pytest.raises(UserError, match="the hub's cache"):
        resolve("o/ggufs", offline_store(tmp_path))


def test_a_cache_that_is_a_file_is_named(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(b"")
    with (
        store_of(cache, stub()) as (store, _),
        pytest.raises(UserError, match=r"o/ggufs cannot be kept in .*HF_HOME"),
    ):
        resolve("o/ggufs", store)


def test_an_address_that_is_no_hub_is_told(tmp_path: Path) -> None:
    for endpoint in ("ftp://127.0.0.1", "file:///", "127.0.0.1"):
        hub = Hub(HubSettings(endpoint, tmp_path))
        with pytest.raises(UserError, match="HF_ENDPOINT"):
            hub.look("o/ggufs")


def test_paths_come_before_names_but_not_for_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("o/ggufs").mkdir(parents=True)
    with store_of(tmp_path / "cache", stub()) as (store, _):
        assert resolve("o/ggufs", store) == Path("o/ggufs")
        assert find_on_hub("o/ggufs", store).path.read_bytes() == OTHER


@pytest.mark.parametrize("model", ["o/missing", "p/model.gguf", "./p/x", "a/b/c", "o/x:../y"])
def test_a_slip_in_a_path_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("o").mkdir()
    hub = stub()
    with (
        store_of(tmp_path / "cache", hub) as (store, _),
        pytest.raises(UserError, match="is no file or folder"),
    ):
        resolve(model, store)
    assert hub.asked == []


def test_a_row_for_the_mask_token_is_told_of(tmp_path: Path) -> None:
    """vLLM's pickle beside a drafter: it is not fetched, and that is said."""
    drafter = {**FOLDER, "mask_embedding.pt": b"a pickle"}
    models = {"o/drafter": StubModel(drafter), "o/gguf": StubModel({**GGUFS, **drafter})}
    hub = StubHub(models)
    with store_of(tmp_path, hub) as (store, _):
        with pytest.warns(UserWarning, match=r"^o/drafter: mask_embedding\.pt, .* is not read"):
            find("o/drafter", store)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            find("o/gguf:Q8_0", store)
    assert "mask_embedding.pt" not in hub.files_asked()


def test_nobody_who_listens_is_told_in_words(tmp_path: Path) -> None:
    """Without the system's numbers of errors."""
    with serving_hub(StubHub({})) as endpoint:
        pass  # nobody listens there any more
    settings = HubSettings(endpoint, tmp_path)
    with pytest.raises(UserError, match="cannot be asked for o/m: Connection refused") as caught:
        find_on_hub("o/m", Store(entries=(), hub_settings=lambda offline: settings))
    assert "Errno" not in str(caught.value)
