"""From samples to figures: the JSON entry of a model, and the table of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from cpu_parts.counts import Work
from cpu_parts.footprint import Footprint
from cpu_parts.machine import Machine
from cpu_parts.measure import DECODE, PREFILL, Samples, median, pass_of, spread

OURS, RIVAL = "draftwalk", "llama.cpp"
Entry = dict[str, object]
# Seconds by rows and kind of kernel; "pass" is a whole pass and "step" a whole step of decoding.
Profiles = Mapping[int, Mapping[str, float]]
_PRODUCTS = ("linear", "gated")
_WIDTHS = (1, 2, 4, 8, 16, 32)


def entry_of(
    samples: Samples,
    footprints: Mapping[str, Sequence[Footprint]],
    work: Work,
    machine: Machine,
    profiles: Profiles | None = None,
) -> Entry:
    """Everything about one model: medians by engine, spreads, shares, ratios, kernels' times."""
    middle = {
        engine: {name: median(values) for name, values in found.items()}
        for engine, found in samples.items()
    }
    entry: Entry = {
        "decode_tok_s": {e: round(1 / m[DECODE], 2) for e, m in middle.items() if DECODE in m},
        "pass_ms": {
            e: {str(w): _ms(m[pass_of(w)]) for w in _WIDTHS if pass_of(w) in m}
            for e, m in middle.items()
        },
        "prefill_512_ms": {e: _ms(m[PREFILL]) for e, m in middle.items() if PREFILL in m},
        "load_s": _middles(footprints, "load_s", 3),
        "memory_mb": _middles(footprints, "peak_mb", 1),
        "memory_loaded_mb": _middles(footprints, "loaded_mb", 1),
        "spread": _spreads(samples, footprints),
        "file_mb": round(work.file_bytes / 1e6, 1),
        "formats": dict(work.formats),
        "machine": {"read_gb_s": machine.read_gb_s, "dot_gmac_s": dict(machine.dot_gmac_s)},
    }
    if OURS in middle:
        entry["shares"] = _shares(middle[OURS], work, machine, profiles or {})
        entry["bound_8_ms"] = _bound(middle[OURS], work, machine)
    if profiles:
        entry["kernels_ms"] = {
            str(rows): {label: _ms(seconds) for label, seconds in found.items()}
            for rows, found in profiles.items()
        }
    if OURS in middle and RIVAL in middle:
        entry["ratios"] = _ratios(middle[OURS], middle[RIVAL])
    return entry


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)


def _middles(
    footprints: Mapping[str, Sequence[Footprint]], name: str, digits: int
) -> dict[str, float]:
    return {
        engine: round(median([getattr(one, name) for one in found]), digits)
        for engine, found in footprints.items()
        if found
    }


def _spreads(
    samples: Samples, footprints: Mapping[str, Sequence[Footprint]]
) -> dict[str, dict[str, float]]:
    """Interquartile ranges as parts of the medians."""
    spreads = {
        engine: {name: round(spread(values), 3) for name, values in found.items()}
        for engine, found in samples.items()
    }
    for engine, found in footprints.items():
        if found:
            of = spreads.setdefault(engine, {})
            of["load"] = round(spread([one.load_s for one in found]), 3)
            of["memory"] = round(spread([one.peak_mb for one in found]), 3)
    return spreads


def _shares(
    ours: Mapping[str, float], work: Work, machine: Machine, profiles: Profiles
) -> dict[str, float]:
    """What part of the machine's rates we reach, and what part of a step no kernel accounts for.

    Reading in passes of 1 row; products in passes of 8, and in their matrix products alone.
    """
    shares = {}
    dot = work.dot_s(machine, 8)
    if pass_of(1) in ours:
        shares["read_1"] = work.read_s(machine) / ours[pass_of(1)]
    if pass_of(8) in ours and dot is not None:
        shares["dot_8"] = dot / ours[pass_of(8)]
    if 8 in profiles and dot is not None:
        shares["dot_8_products"] = dot / sum(profiles[8].get(label, 0.0) for label in _PRODUCTS)
    if 1 in profiles:
        kernels = [t for name, t in profiles[1].items() if name not in ("pass", "step")]
        shares["outside_kernels"] = 1 - sum(kernels) / profiles[1]["step"]
    return {name: round(share, 3) for name, share in shares.items()}


def _bound(ours: Mapping[str, float], work: Work, machine: Machine) -> float | None:
    """Milliseconds that 8 rows may take.

    1.6 passes of one row (or of the file at 80% of the bandwidth), or 1.15 times their products at
    60% of the machine's rate, whichever is more.
    """
    if pass_of(1) not in ours:
        return None
    one = max(ours[pass_of(1)], work.read_s(machine) / 0.8)
    dot = work.dot_s(machine, 8) or 0.0
    return _ms(max(1.6 * one, 1.15 * dot / 0.6))


def _ratios(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    """Our time over theirs; of decoding, our rate over theirs."""
    both = [name for name in ours if name in theirs and name != DECODE]
    ratios = {name: round(ours[name] / theirs[name], 3) for name in both}
    if DECODE in ours and DECODE in theirs:
        ratios[DECODE] = round(theirs[DECODE] / ours[DECODE], 3)
    return ratios


def table_of(models: Mapping[str, Entry], engines: Sequence[str]) -> Table:
    """One line for each model and engine."""
    table = Table(title="medians, the same files, engines taking turns; passes by their rows")
    table.add_column("model")
    table.add_column("engine")
    for name in ("tok/s", *(f"{w} ms" for w in _WIDTHS), "prefill ms", "load s", "MB"):
        table.add_column(name, justify="right")
    for model, entry in models.items():
        for number, engine in enumerate(engines):
            cells = [_cell(entry, "decode_tok_s", engine, 1)]
            passes = entry["pass_ms"]
            assert isinstance(passes, dict)
            mine = passes.get(engine, {})
            cells += [f"{mine[str(w)]:.2f}" if str(w) in mine else "" for w in _WIDTHS]
            cells.append(_cell(entry, "prefill_512_ms", engine, 0))
            cells += [_cell(entry, "load_s", engine, 2), _cell(entry, "memory_mb", engine, 0)]
            table.add_row(model if number == 0 else "", engine, *cells)
        table.add_row("", *_remarks(entry), end_section=True)
    return table


def _cell(entry: Entry, name: str, engine: str, digits: int) -> str:
    values = entry[name]
    assert isinstance(values, dict)
    return f"{values[engine]:.{digits}f}" if engine in values else ""


def _remarks(entry: Entry) -> list[str]:
    """The last line of a model: ours against llama.cpp's, under the columns."""
    ratios = entry.get("ratios")
    if not isinstance(ratios, dict):
        return [""]
    names = [DECODE, *map(pass_of, _WIDTHS), PREFILL]
    return ["ratio", *(f"{ratios[name]:.2f}" if name in ratios else "" for name in names)]
