"""draftwalk against llama.cpp on the CPU: the same files, one run, engines taking turns.

    python benchmarks/cpu.py [--quick] [--models NAME...] [--threads 2] [--backend native|torch]

Engines: draftwalk in this process; llama.cpp (llama-cpp-python, built for this machine) and
xllamacpp (prebuilt), each in a process of the referee's environment (`make referee`). Measured:
greedy decoding, passes of 1 to 32 rows over the whole target after 256 tokens (logits for all rows,
no draft, no sampling), prefill of 512, load time and memory in fresh processes, and the machine's
own rates. Progress and a table go to stderr, one JSON document is the last line of stdout.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from cpu_parts.arm import Arm
from cpu_parts.counts import Work
from cpu_parts.draftwalk_arm import DraftwalkArm, operations, resolve_back_end
from cpu_parts.footprint import Footprint, footprint, prepared
from cpu_parts.machine import Machine, MachineError, Probe
from cpu_parts.measure import QUICK, Plan, Samples, measure
from cpu_parts.model_files import DEFAULT_FOLDER, GEMMA, MODELS, SMOLLM2, Sources, model_file
from cpu_parts.products import products
from cpu_parts.remote import ArmError, RemoteArm
from cpu_parts.report import OURS, Entry, entry_of, table_of
from cpu_parts.text import read_text, token_ids
from draftwalk.errors import UserError
from draftwalk.ops.choice import BackEnd
from quiet_bar import progress

ROOT = Path(__file__).parent.parent
ENGINES = ("draftwalk", "llama.cpp", "xllamacpp")
PROFILED = 8  # passes of each width with a clock in between
QUIET = 0.5  # load average; more means that somebody else uses the cores
STDERR = Console(stderr=True, width=None if sys.stderr.isatty() else 160)


@dataclass(frozen=True, slots=True)
class Setting:
    """How a run is done.

    Attributes:
        engines: who takes part.
        referee: the interpreter that has the others.
        back_end: of draftwalk.
        threads: of every engine.
        plan: what is measured.
        text: what engines read.
    """

    engines: tuple[str, ...]
    referee: Path
    back_end: BackEnd
    threads: int
    plan: Plan
    text: str

    def remote(self, engine: str) -> RemoteArm:
        """A fresh process of an engine."""
        python = Path(sys.executable) if engine == OURS else self.referee
        return RemoteArm(python.absolute(), engine, self.back_end)

    def arm(self, engine: str, stack: ExitStack) -> Arm:
        """An engine for the whole of a model: ours here, others until the stack ends."""
        if engine == OURS:
            return DraftwalkArm(self.back_end)
        return stack.enter_context(self.remote(engine))


@dataclass(frozen=True, slots=True)
class Timed:
    """What taking turns on one model gave.

    Attributes:
        samples: seconds by engine and measure.
        profiles: of the native back end, seconds by rows and kind of kernel.
        failures: engines that could not take part, and why.
    """

    samples: Samples
    profiles: dict[int, dict[str, float]]
    failures: dict[str, str]


def time_model(
    path: Path, ids: Sequence[int], setting: Setting, tick: Callable[[str], None]
) -> Timed:
    """Loads all engines, and lets them take turns."""
    plan, failures, profiles = setting.plan, dict[str, str](), dict[int, dict[str, float]]()
    with ExitStack() as stack:
        arms: dict[str, Arm] = {}
        for engine in setting.engines:
            try:
                arm = setting.arm(engine, stack)
                arm.load(path, setting.threads, prepared(plan))
                arms[engine] = arm
            except (ArmError, UserError) as error:
                failures[engine] = str(error)
        samples = measure(arms, ids, plan, tick) if arms else {}
        if isinstance(ours := arms.get(OURS), DraftwalkArm) and setting.back_end == "native":
            ours.read(ids[: plan.context])
            for rows in plan.widths:
                after = ids[plan.context : plan.context + rows]
                profiles[rows] = ours.profile(after, PROFILED)
    return Timed(samples, profiles, failures)


def bench_model(
    path: Path, machine: Machine, setting: Setting, tick: Callable[[str], None]
) -> tuple[Entry, dict[str, str]]:
    """One model on all engines; also says which of them failed, and why."""
    plan, work = setting.plan, Work.of(path)
    ids = token_ids(path, setting.text, plan.needed)
    timed = time_model(path, ids, setting, tick)
    gc.collect()  # the weights in this process
    kv_bytes = prepared(plan) * work.kv_bytes_per_place
    footprints: dict[str, list[Footprint]] = {name: [] for name in timed.samples}
    for _ in range(plan.loads):
        for name, found in footprints.items():
            tick(f"{name} loads")
            start = partial(setting.remote, name)
            found.append(footprint(start, path, ids, plan, setting.threads, kv_bytes))
    entry = entry_of(timed.samples, footprints, work, machine, timed.profiles)
    return entry, timed.failures


def bench(
    names: Sequence[str],
    sources: Sources,
    setting: Setting,
    probe: Callable[[int], Machine],
    tick: Callable[[str], None],
) -> dict[str, object]:
    """All models; the whole document.

    Args:
        names: models of the benchmark, or paths of GGUF files.
        sources: where models come from.
        setting: how the run is done.
        probe: measures the machine.
        tick: told what is being done.
    """
    load = os.getloadavg()[0]
    if load > QUIET:
        tick(f"the machine is busy (load {load:.1f}): wait, or expect noise")
    machines: list[Machine] = []
    models: dict[str, Entry] = {}
    failed: dict[str, object] = {}
    for name in names:
        tick(f"{name}: the file")
        try:
            path = model_file(name, sources)
            tick(f"{name}: the machine")
            machines.append(probe(setting.threads))
            entry, failures = bench_model(path, machines[-1], setting, _within(name, tick))
            models[name] = entry
        except (UserError, ArmError) as error:
            failures = {"all": str(error)}
        if failures:
            failed[name] = failures
            tick(f"{name} failed: {failures}")
    machine = Machine.median(machines or [probe(setting.threads)])
    document: dict[str, object] = {
        "threads": setting.threads,
        "load_average": round(load, 2),
        "back_end": setting.back_end,
        "bandwidth_gb_s": machine.read_gb_s,
        "bandwidth_1_gb_s": machine.read_1_gb_s,
        "dot_gmac_s": machine.dot_gmac_s,
        "dot_sequences": machine.sequences,
    }
    if OURS in setting.engines and setting.back_end == "native":
        tick("matrix products alone")
        document["products"] = products(operations("native", setting.threads), machine)
    return {**document, "models": models, "failed": failed}


def _within(name: str, tick: Callable[[str], None]) -> Callable[[str], None]:
    return lambda what: tick(f"{name}: {what}")


def is_news(what: str) -> bool:
    """Whether it is a model's beginning, and what went wrong."""
    return what.endswith(": the file") or " failed: " in what or " is busy " in what


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="NAME")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--quick", action="store_true", help="passes of 1 and 8 rows, few turns")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backend", choices=("auto", "native", "torch"), default="auto")
    parser.add_argument("--rounds", type=int, help="turns of every engine")
    parser.add_argument("--referee", type=Path, default=ROOT / ".referee" / "bin" / "python")
    parser.add_argument("--smollm2", type=Path, help="the file, else it is fetched by name")
    parser.add_argument("--gemma", type=Path, help="the file of Gemma 3 270M")
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, help="keeps written models")
    parser.add_argument("--text", type=Path, default=ROOT / "LICENSE", help="what engines read")
    return parser.parse_args()


def plan_of(asked: argparse.Namespace) -> Plan:
    """The plan that was asked for."""
    plan = QUICK if asked.quick else Plan()
    if asked.rounds is None:
        return plan
    return replace(plan, rounds=asked.rounds, prefills=min(plan.prefills, asked.rounds))


def setting_of(asked: argparse.Namespace) -> Setting:
    """The setting that was asked for."""
    return Setting(
        engines=tuple(asked.engines),
        referee=asked.referee,
        back_end=resolve_back_end(asked.backend),
        threads=asked.threads,
        plan=plan_of(asked),
        text=read_text(asked.text),
    )


def main() -> None:
    """Runs and reports."""
    asked = parse()
    given = {SMOLLM2: asked.smollm2, GEMMA: asked.gemma}
    sources = Sources(asked.out, {name: path for name, path in given.items() if path is not None})
    try:
        setting = setting_of(asked)
        count, plan = len(setting.engines), setting.plan
        steps = len(asked.models) * (2 + plan.turns(count) + plan.loads * count) + 1
        probe = Probe()
        with progress(steps, STDERR, is_news) as tick:
            document = bench(asked.models, sources, setting, probe.measure, tick)
        probe.close()
    except (UserError, MachineError) as error:
        sys.exit(f"error: {error}")
    models = document["models"]
    assert isinstance(models, dict)
    STDERR.print(table_of(models, setting.engines))
    print(json.dumps(document))


if __name__ == "__main__":
    main()
