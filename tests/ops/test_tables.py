"""What enters and leaves a model: embeddings, given rows, features, logits."""

import torch

from draftwalk.ops import Linear
from draftwalk.ops.torch import DenseMatrix
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows, Rowset
from draftwalk.weights import pack_tensor
from support.models import CPU, DOUBLE


def table(rows: int = 7, columns: int = 4) -> torch.Tensor:
    return torch.arange(rows * columns, dtype=torch.float64).reshape(rows, columns)


def test_embeddings_are_scaled() -> None:
    rows = Rows.lay_out([Rowset(0, [5, 0], 0), Rowset(1, [6], 3)], CPU)
    out = DOUBLE.embed(DenseMatrix(table()), rows, 3.0)
    assert torch.equal(out, 3.0 * table()[[5, 0, 6]])


def test_given_rows_stand_for_negative_ids_and_are_not_scaled() -> None:
    given = -table(3)
    rows = Rows.lay_out([Rowset(0, [5, -1, -3, 2], 0), Rowset(1, [-2], 0)], CPU, given)
    out = DOUBLE.embed(DenseMatrix(table()), rows, 3.0)
    expected = torch.stack([3 * table()[5], given[0], given[2], 3 * table()[2], given[1]])
    assert torch.equal(out, expected)


def test_given_rows_come_in_any_type() -> None:
    rows = Rows.lay_out([Rowset(0, [-1, 1], 0)], CPU, torch.ones(1, 4, dtype=torch.bfloat16))
    out = DOUBLE.embed(DenseMatrix(table()), rows, 1.0)
    assert out.dtype == torch.float64
    assert torch.equal(out, torch.stack([torch.ones(4, dtype=torch.float64), table()[1]]))


def test_logits_are_multiplied_before_they_are_capped() -> None:
    x, head = torch.ones(2, 4, dtype=torch.float64), DenseMatrix(table())
    product = x @ table().T
    expected = 5.0 * torch.tanh(product * 0.1 / 5.0)
    assert torch.equal(DOUBLE.head(x, head), product)
    assert torch.equal(DOUBLE.head(x, head, 0.1, 5.0), expected)


def test_nothing_is_wanted() -> None:
    x = torch.empty(0, 4, dtype=torch.float64)
    assert DOUBLE.head(x, DenseMatrix(table())).shape == (0, 7)


def test_a_factored_table_is_the_product() -> None:
    factor = torch.randn(3, 4, dtype=torch.float64)
    whole = DOUBLE.product(DenseMatrix(table()), DenseMatrix(factor))
    assert whole.shape == (7, 3)
    assert isinstance(whole, DenseMatrix)
    assert torch.equal(whole.weight, table() @ factor.T)


def test_norm_weights_are_shifted_before_they_are_rounded() -> None:
    raw = pack_tensor("norm.weight", torch.tensor([0.001, -0.5]).numpy(), F32)
    assert DOUBLE.vector(raw, 1.0).tolist() == [float(torch.tensor(1.001)), 0.5]


def test_linears_of_the_same_rows() -> None:
    x = table(2)
    bias = torch.tensor([1.0, -1.0], dtype=torch.float64)
    matrices = DenseMatrix(table(2)), DenseMatrix(table(5))
    first, second = DOUBLE.linear(x, (Linear(matrices[0], bias), Linear(matrices[1])))
    assert torch.equal(first, x @ table(2).T + bias)
    assert torch.equal(second, x @ table(5).T)
    residual = torch.ones(2, 2, dtype=torch.float64)
    added = DOUBLE.linear_residual(x, Linear(matrices[0], bias), residual)
    assert torch.equal(added, 1.0 + x @ table(2).T + bias)
