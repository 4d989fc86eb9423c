"""The compiled extension: kernels, recorded passes, and the memory they work in.

Memory is named by its address, as `Tensor.data_ptr()` gives it; 0 is nothing. Functions that take a
program append a call to it and return the call's number; nothing is computed before the replay.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

def instruction_sets() -> list[str]:
    """Those that are compiled in and that this processor has, the best first."""

def layouts() -> list[str]:
    """Formats that matrices can be packed from."""

class Runtime:
    """Threads and kernels."""

    def __init__(self, threads: int, instruction_set: str) -> None: ...
    @property
    def threads(self) -> int: ...
    @property
    def instruction_set(self) -> str: ...

class Program:
    """Calls that are replayed in order."""

    def __init__(self, runtime: Runtime) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def replay(self) -> None: ...
    def replay_timed(self) -> list[tuple[str, float]]:
        """Name and seconds of every call."""
    def quantise(self, call: int, into: int, rows: int, width: int) -> None:
        """Lets a call write the int8 companion of its output too."""
    def only_quantise(self, call: int) -> None:
        """Lets it write nothing else."""

class Arena:
    """Memory at addresses that stay."""

    def __init__(self, reserve: int) -> None: ...
    def allocate(self, size: int) -> int: ...
    def release(self, place: int) -> None: ...
    def reset(self) -> None: ...
    @property
    def start(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def in_use(self) -> int: ...
    @property
    def most(self) -> int: ...

class Rows:
    """The row table as kernels read it."""

    def __init__(self, rows: int, wanted: int, planes: int, spans: int) -> None: ...
    @property
    def address(self) -> int: ...
    def fill(self, numbers: int | Sequence[int]) -> None:
        """Copies tokens, sequences, places, parents, positions, wanted rows, and spans."""
    def set_embeddings(self, place: int) -> None: ...
    def numbers(self, owner: object) -> Tensor:
        """All of them, to look at."""

class PageTable:
    """Where page tables are."""

    def __init__(self) -> None: ...
    @property
    def address(self) -> int: ...
    def set(self, values: int, slots: int, pages: int) -> None: ...

class Pages:
    """A pool of K/V pages."""

    def __init__(self, type: str, layers: int, heads: int, head_dim: int) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def page_bytes(self) -> int: ...
    def grow(self, count: int) -> None: ...
    def copy(self, source: int, into: int) -> None: ...
    def read(self, pages: Sequence[int], into: int) -> None: ...
    def write(self, pages: Sequence[int], saved: int) -> None: ...

class Matrix:
    """A packed matrix."""

    @property
    def layout(self) -> str: ...
    @property
    def outputs(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def bytes(self) -> int: ...

def tensor(address: int, size: int, owner: object) -> Tensor:
    """A vector of fp32 in memory of the owner."""

def copy(to: int, source: int, size: int) -> None:
    """Copies bytes."""

def quantised_bytes(rows: int, width: int) -> int:
    """Size of an int8 companion."""

def packed_bytes(layout: str, outputs: int, inputs: int) -> int:
    """Size of a packed matrix."""

def pack(runtime: Runtime, layout: str, source: int, outputs: int, inputs: int) -> Matrix:
    """Packs a matrix from the bytes of a file."""

def unpack(program: Program, matrix: Matrix, index: int, rows: int, out: int) -> int: ...
def embed(program: Program, matrix: Matrix, rows: int, scale: float, out: int) -> int: ...
def quantise(program: Program, x: int, rows: int, width: int, companion: int) -> int: ...
def linears(
    program: Program,
    parts: Sequence[tuple[Matrix, int, int, int, float, float]],
    x: int,
    companion: int,
    rows: int,
) -> int:
    """Parts are matrix, bias, residual, out, multiplier, softcap."""

def gated(
    program: Program,
    gate: Matrix,
    gate_bias: int,
    up: Matrix,
    up_bias: int,
    x: int,
    companion: int,
    rows: int,
    activation: str,
    out: int,
) -> int: ...
def norm(
    program: Program,
    x: int,
    weight: int,
    residual: int,
    out: int,
    rows: int,
    width: int,
    eps: float,
) -> int: ...
def gather(program: Program, x: int, index: int, out: int, rows: int, width: int) -> int: ...
def join(
    program: Program, parts: Sequence[int], widths: Sequence[int], rows: int, out: int
) -> int: ...
def evaluate(program: Program, function: str, x: int, out: int, count: int) -> int: ...
def rotate(
    program: Program,
    x: int,
    out: int,
    heads: int,
    head_dim: int,
    weight: int,
    eps: float,
    cos: int,
    sin: int,
    rows: int,
) -> int: ...
def remember(
    program: Program,
    k: int,
    v: int,
    weight: int,
    eps: float,
    cos: int,
    sin: int,
    pool: int,
    layer: int,
    table: int,
    rows: int,
) -> int: ...
def attend(
    program: Program,
    q: int,
    out: int,
    heads: int,
    pool: int,
    layer: int,
    table: int,
    rows: int,
    scale: float,
    causal: bool,
    window: int,
    softcap: float,
    sinks: int,
) -> int: ...
def convolve(
    program: Program,
    x: int,
    dynamic: int,
    base: int,
    side: int,
    taps: int,
    groups: int,
    width: int,
    residual: int,
    out: int,
    rows: int,
) -> int: ...
def selector(
    program: Program,
    unary: int,
    candidates: int,
    gate: int,
    before: Matrix,
    after: Matrix,
    drafted: int,
    k: int,
    rows: int,
    out: int,
) -> int: ...
def top_k(
    program: Program, logits: int, rows: int, vocabulary: int, k: int, values: int, ids: int
) -> int: ...
def argmax(
    program: Program, logits: int, rows: int, vocabulary: int, values: int, ids: int
) -> int: ...

class Chooser:
    """Chooses tokens from rows of fp32 logits, whose addresses it is given.

    `changes` are ids, their biases, how often the recent text has them, and penalties: repeat,
    frequency, presence. `filters` are temperature (0 is greedy), top_k, top_p, min_p. `start` is
    where a position's noise starts.
    """

    def __init__(self, vectors: str) -> None: ...
    @staticmethod
    def kinds() -> list[str]:
        """Vectors there are here, the longest first; all give the same bits."""
    def choose(
        self,
        logits: int,
        size: int,
        changes: tuple[Sequence[int], Sequence[float], Sequence[float], tuple[float, float, float]],
        filters: tuple[float, int, float, float],
        start: int,
    ) -> tuple[int, float, float]:
        """Token, -1 if the row cannot be used, and the greatest logit before and after changes."""
    def distribution(
        self,
        logits: int,
        size: int,
        changes: tuple[Sequence[int], Sequence[float], Sequence[float], tuple[float, float, float]],
        filters: tuple[float, int, float, float],
    ) -> tuple[tuple[NDArray[np.int64], NDArray[np.float64]], float, float]:
        """Ids, ascending, and their probabilities, and the same greatest logits."""
    def walk(
        self,
        candidates: int,
        scores: int,
        rows: int,
        k: int,
        filters: tuple[float, int, float, float],
        text: tuple[Sequence[int], int, Mapping[int, float], tuple[float, float, float]],
        first: int,
        uniforms: Sequence[float],
    ) -> tuple[list[int], list[float], list[tuple[NDArray[np.int64], NDArray[np.float64]]]]:
        """A path through candidates [rows, k] by scores [rows, k, k]: tokens, confidences, and q.

        `text` is the recent tokens, how many count, biases and penalties. Under the rejection rule
        there is a uniform for each row, and q is what tokens were drawn from; else the tokens win
        races, and `first` is what the first position's key is mixed from.
        """
    def exp(self, x: float) -> float:
        """For numbers that are not positive."""

def log(x: float) -> float:
    """For positive normal numbers."""
