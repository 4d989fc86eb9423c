"""Reading a configuration: kinds, names in messages, and nothing left unread."""

import pytest

from draftwalk.errors import CheckpointError
from draftwalk.weights.fields import COUNT, FLAG, MAPPING, Fields


def finish(fields: Fields) -> None:
    fields.finish({"harmless"}, {"scale": 1, "flag": False})


def test_what_was_read_is_not_left_over() -> None:
    fields = Fields({"a": 1, "b": None, "c": True, "d": 4, "e": 5, "harmless": 9}, "m")
    assert fields.need("a", COUNT) == 1
    assert fields.get("c", FLAG, False) is True
    fields.refuse_unless("d", 4)
    fields.ignore("e")
    assert fields.get("missing", COUNT, 7) == 7
    finish(fields)


@pytest.mark.parametrize(
    "values", [{"scale": 1}, {"scale": 1.0}, {"flag": False}, {"other": None}, {"harmless": 3}]
)
def test_neutral_values_pass(values: dict[str, object]) -> None:
    finish(Fields(values, "m"))


@pytest.mark.parametrize("values", [{"scale": 2}, {"flag": True}, {"other": 0}, {"other": False}])
def test_others_do_not(values: dict[str, object]) -> None:
    (key,) = values
    with pytest.raises(CheckpointError, match=f"m: key {key} = .* is not implemented"):
        finish(Fields(values, "m"))


def test_a_table_is_finished_on_its_own() -> None:
    fields = Fields({"t": {"a": 1, "b": 2}, "u": None}, "m")
    table = fields.table("t")
    assert table.need("a", COUNT) == 1
    finish(fields)
    with pytest.raises(CheckpointError, match=r"m: key t\.b = 2 is not"):
        finish(table)
    with pytest.raises(CheckpointError, match=r"key t\.c is missing"):
        table.need("c", COUNT)
    with pytest.raises(CheckpointError, match=r"key t\.b is 2, expected true or false"):
        table.get("b", FLAG, None)
    assert fields.table("u").values == fields.table("v").values == {}


def test_what_stands_in_front_comes_first_and_both_are_finished() -> None:
    top = Fields({"a": 1, "b": 2, "c": 3, "t": {"a": 10, "b": None, "d": 4}}, "m")
    own = Fields(top.need("t", MAPPING), "m", "t.", behind=top)
    assert [own.get(key, COUNT, 0) for key in ("a", "b", "x")] == [10, 2, 0]
    with pytest.raises(CheckpointError, match=r"key c = 3 is not"):
        finish(own)
    assert top.need("c", COUNT) == 3
    with pytest.raises(CheckpointError, match=r"key t\.d = 4 is not"):
        finish(own)
    own.ignore("d")
    finish(own)
    with pytest.raises(CheckpointError, match=r"key b is 2, expected true"):
        own.read("b", FLAG)
    with pytest.raises(CheckpointError, match=r"key t\.a = 10 is not"):
        own.refuse_unless("a", 1)
