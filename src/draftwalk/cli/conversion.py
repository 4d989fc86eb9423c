"""What `convert` and `quantize` do with their options, and what they tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from draftwalk.cli.options import StoreOptions
from draftwalk.cli.progress import downloading
from draftwalk.cli.streams import say, write, write_json
from draftwalk.convert import Container, Options, Report, convert, mix_of, override_of
from draftwalk.convert.types import packing
from draftwalk.convert.writing import Progress
from draftwalk.fetch import Store, resolve
from draftwalk.models import open_model


@dataclass(frozen=True, slots=True)
class Job:
    """The options of either verb; see `draftwalk.convert.Options`."""

    source: str
    destination: Path
    target: str | None
    to: Container
    outtype: str | None
    overrides: tuple[str, ...]
    tokenizer: bool
    requantize: bool
    force: bool
    whole_tables: bool = True


def run(job: Job, where: StoreOptions, as_json: bool) -> None:
    """Converts, and tells what was written."""
    outtype = None if job.outtype is None else mix_of(job.outtype)
    overrides = [override_of(text) for text in job.overrides]
    with downloading() as fetching:
        store = Store(where.cache_dir, where.offline, fetching)
        source = resolve(job.source, store)
        target = None if job.target is None else resolve(job.target, store)
    with writing() as progress:
        done = convert(
            open_model(source),
            job.destination,
            job.to,
            Options(
                outtype,
                None if target is None else open_model(target),
                overrides,
                job.tokenizer,
                job.whole_tables,
                job.requantize,
                job.force,
                progress,
            ),
        )
    if as_json:
        write_json(facts(done))
    else:
        tell(done)


@contextmanager
def writing() -> Iterator[Progress]:
    """Yields what to tell how much is written; a bar on a terminal, else nothing."""
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Bar("writing", *columns, console=Console(stderr=True), transient=True)
    if not bar.console.is_terminal:
        yield lambda done, total: None
        return
    task = bar.add_task("", total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)


def facts(done: Report) -> dict[str, object]:
    """What there is now, and every tensor that got another type than it should have."""
    return {
        "path": str(done.path),
        "what": done.what,
        "container": done.container,
        "bytes": done.bytes,
        "formats": dict(done.formats.most_common()),
        "fallbacks": [
            {"tensor": name, "width": width, "wanted": wanted, "stored": got}
            for name, width, wanted, got in done.fallbacks
        ],
        "notes": list(done.notes),
    }


def tell(done: Report) -> None:
    """How many tensors got another type than they should have, then what there is now."""
    widths: dict[tuple[str, str], list[int]] = defaultdict(list)
    for _, width, wanted, got in done.fallbacks:
        widths[wanted, got].append(width)
    for (wanted, got), rows in widths.items():
        lengths = ", ".join(map(str, sorted(set(rows))))
        tensors = "1 tensor is" if len(rows) == 1 else f"{len(rows)} tensors are"
        write(
            f"{tensors} {got} in place of {wanted}: {packing(wanted).BLOCK} does not divide rows "
            f"of {lengths}\n"
        )
    formats = ", ".join(f"{count} {name}" for name, count in done.formats.most_common())
    write(f"{done.path}: {done.what}, {done.bytes / 1e6:.1f} MB of tensors ({formats})\n")
    notes = ["--json names the tensors of other types"] if done.fallbacks else []
    for note in (*notes, *done.notes):
        say(f"note: {note}")
