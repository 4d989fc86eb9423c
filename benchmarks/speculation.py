"""Speculation on the CPU: plain, DFlash and DFlash2 here, beside llama.cpp, in one run.

    python benchmarks/speculation.py [--target FILE] [--drafter DFLASH2] [--dflash DFLASH]
        [--data FOLDER] [--suites NAME...] [--prompts FILE...] [--limit N] [--engines NAME...]
        [--samplings greedy seeded] [--plot FILE.png]

Every prompt, rendered by the target's own chat template, is answered greedily and at temperature
0.7 by every arm, one after the other, and each prompt begins with another arm. Arms: plain decoding
(twice: how far apart equal arms are), each drafter at every fixed window and at the automatic one;
llama.cpp, built for this machine (`referee/build_llama_answers.py`), plain and with the same
DFlash2 drafter at several numbers of drafted tokens, on the target as it is and in Q4_0. The best
arm of an engine stands for it.

Speculative text must be plain text, token by token: else the exit code is 1. Tables go to stderr,
one JSON document is the last line of stdout; benchmarks/README.md explains both.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from draftwalk.draft.pairing import find_packaged_drafter
from draftwalk.engine import DEFAULT_CONTEXT, Engine, Placement
from draftwalk.errors import PromptError, UserError
from draftwalk.fetch import resolve
from draftwalk.prompt.messages import Message
from prompts import Prompt, read_prompts, suite_files
from quiet_bar import progress
from speculation_parts.answer import (
    DFLASH,
    DFLASH2,
    ENGINES,
    LLAMA,
    LLAMA_DFLASH2,
    PLAIN,
    Arm,
    Question,
)
from speculation_parts.cycle import cycle_of, draft_shares
from speculation_parts.llama_process import Answering
from speculation_parts.ours import open_engines, our_arms
from speculation_parts.plot import plot
from speculation_parts.rivals import Files, drafter_file, format_of, q4_0_of, rival_arms
from speculation_parts.run import SEED, TEMPERATURES, Measured, Plan, run
from speculation_parts.summary import Document, document_of
from speculation_parts.tables import show

ROOT = Path(__file__).parent.parent
STDERR = Console(stderr=True, width=None if sys.stderr.isatty() else 200)
PROFILED = 2  # prompts that are answered once more to see where drafts take their time
QUIET = 0.5  # load average; more means that somebody else uses the cores


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--target", default="smollm2-135m", help="GGUF file, or a name of the catalogue")
    add("--drafter", type=Path, help="a DFlash2 drafter; the packaged one by default")
    add("--dflash", type=Path, help="a DFlash drafter")
    add("--data", type=Path, default=ROOT / "tests" / "prompts", help="folder of suites")
    add("--suites", nargs="+", default=[], metavar="NAME", help="of the folder; all by default")
    add("--prompts", nargs="+", type=Path, default=[], metavar="FILE", help="instead of suites")
    add("--limit", type=int, help="prompts of each suite or file, spread over its length")
    add("--engines", nargs="+", choices=ENGINES, help="all that there are files for by default")
    add("--samplings", nargs="+", default=list(TEMPERATURES), choices=list(TEMPERATURES))
    add("--tokens", type=int, default=256, help="new tokens, at most")
    add("--windows", nargs="+", type=int, default=[1, 2, 3, 4, 5, 6, 7], metavar="N")
    add("--n-max", nargs="+", type=int, default=[1, 2, 3, 5, 7], metavar="N", help="llama.cpp's")
    add("--threads", type=int, default=2, help="of every engine")
    add("--context", type=int, default=DEFAULT_CONTEXT)
    add("--target-q4-0", type=Path, help="for llama.cpp; made by its quantiser by default")
    add("--llama-drafter", type=Path, help="the DFlash2 drafter as llama.cpp can read it")
    add("--llama-answers", type=Path, default=ROOT / ".referee" / "bin" / "llama_answers")
    add("--referee", type=Path, default=ROOT / ".referee" / "bin" / "python")
    add("--records", type=Path, metavar="FILE", help="takes every answer as a line of JSON")
    add("--plot", type=Path, metavar="FILE", help="a PNG; needs matplotlib")
    return parser.parse_args(arguments)


def main() -> None:
    """Runs and reports."""
    asked = parse()
    try:
        with ExitStack() as stack:
            document = bench(asked, stack)
        show(document, STDERR)
        if asked.plot is not None:
            plot(document, asked.plot)
    except UserError as error:
        sys.exit(f"error: {error}")
    print(json.dumps(document))
    equal = document["equal"]
    assert isinstance(equal, dict)
    sys.exit(0 if equal["all"] else 1)


def bench(asked: argparse.Namespace, stack: ExitStack) -> Document:
    """Everything, from files to the document."""
    names = engines_of(asked)
    target = resolve(asked.target)
    placement = Placement(threads=asked.threads, context=asked.context)
    engines = open_engines(target, asked.drafter, asked.dflash, names, placement)
    plan = plan_of(asked, engines[PLAIN])
    arms = [*our_arms(engines, asked.windows), *rivals_of(asked, target, engines, names, stack)]
    load = os.getloadavg()[0]
    if load > QUIET:
        STDERR.print(f"the machine is busy (load {load:.1f}): wait, or expect noise")
    turns = len(plan.questions()) + len(plan.samplings)
    with progress(len(arms) * turns, STDERR, is_news) as tick:
        measured = run(arms, plan, tick, asked.records)
    if not measured.cases:
        raise UserError("nothing was measured", "let one prompt be answered by every arm")
    return {
        **document_of(measured, arms),
        "cycles": cycles(engines, arms, measured, plan),
        "setting": setting_of(asked, target, engines, plan, load),
    }


def engines_of(asked: argparse.Namespace) -> list[str]:
    """Names of engines: those asked for, else all that there are files for."""
    if asked.engines is not None:
        return list(asked.engines)
    absent = {
        *([] if asked.dflash is not None else [DFLASH]),
        *([] if asked.llama_answers.is_file() else [LLAMA, LLAMA_DFLASH2]),
    }
    if absent:
        STDERR.print(f"left out, for there are no files: {', '.join(sorted(absent))}")
    return [name for name in ENGINES if name not in absent]


def plan_of(asked: argparse.Namespace, engine: Engine) -> Plan:
    """Prompts that fit into the context, rendered."""
    files = asked.prompts or suite_files(asked.data, asked.suites)
    prompts: list[tuple[Prompt, tuple[int, ...]]] = []
    for prompt in read_prompts(files, asked.limit):
        ids = tuple(engine.encode_chat([Message("user", prompt.text)]))
        if len(ids) + asked.tokens <= engine.context:
            prompts.append((prompt, ids))
        else:
            STDERR.print(f"{prompt.suite}: left out a prompt of {len(ids)} tokens")
    if not prompts:
        raise PromptError("no prompt fits into the context", "give a larger --context")
    return Plan(prompts, asked.samplings, asked.tokens)


def rivals_of(
    asked: argparse.Namespace,
    target: Path,
    engines: dict[str, Engine],
    names: Sequence[str],
    stack: ExitStack,
) -> list[Arm]:
    """Arms of llama.cpp, its processes started."""
    if LLAMA not in names and LLAMA_DFLASH2 not in names:
        return []
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    targets = {format_of(target): target}
    if "Q4_0" not in targets:
        targets["Q4_0"] = asked.target_q4_0 or q4_0_of(target, folder, asked.referee)
    drafter = asked.llama_drafter
    if drafter is None and LLAMA_DFLASH2 in names:
        source = asked.drafter or find_packaged_drafter(engines[PLAIN].checkpoint)
        if source is None:
            raise UserError("llama.cpp has no drafter", "give --drafter or --llama-drafter")
        drafter = drafter_file(source, target, folder)
    answering = Answering(asked.llama_answers, asked.threads, asked.context)
    most = engines[DFLASH2].drafter.block - 1 if DFLASH2 in engines else max(asked.n_max)
    n_max = sorted({min(n, most) for n in asked.n_max})
    return rival_arms(Files(targets, drafter), answering, names, n_max, stack)


def cycles(
    engines: dict[str, Engine], arms: Sequence[Arm], measured: Measured, plan: Plan
) -> dict[str, dict[str, float]]:
    """Where the cycles of our arms go."""
    samplings = [TEMPERATURES[name] for name in plan.samplings]
    questions = [
        Question(ids, temperature, SEED, min(64, plan.tokens))
        for _, ids in plan.prompts[:PROFILED]
        for temperature in samplings
    ]
    shares = {name: draft_shares(engine, questions) for name, engine in engines.items()}
    found = {}
    for arm in arms:
        if arm.ours and arm.name in measured.answers:
            parts = cycle_of(measured.answers[arm.name], shares[arm.engine])
            found[arm.name] = {name: round(ms, 4) for name, ms in parts.items()}
    return found


def setting_of(
    asked: argparse.Namespace, target: Path, engines: dict[str, Engine], plan: Plan, load: float
) -> dict[str, object]:
    """How it was measured."""
    drafters = {name: engine.drafter_path for name, engine in engines.items()}
    return {
        "target": target.name,
        "drafters": {name: path.name for name, path in drafters.items() if path is not None},
        "threads": asked.threads,
        "niceness": os.nice(0),
        "tokens": plan.tokens,
        "prompts": len(plan.prompts),
        "samplings": list(plan.samplings),
        "load_average": [round(load, 2), round(os.getloadavg()[0], 2)],
    }


def is_news(what: str) -> bool:
    """Whether it is what went wrong."""
    return " failed: " in what or what.startswith("interrupted")


if __name__ == "__main__":
    main()
