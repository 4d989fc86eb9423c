"""Answer prompts with llama.cpp's server and a drafter, as xllamacpp carries it.

    .referee/bin/python referee/llama_server.py TARGET DRAFTER N_MAX TOKENS THREADS

Reads lines of JSON with token ids from stdin; writes for each {"tokens": ids, "draft_n": drafted,
"draft_n_accepted": how many of them stood}. Greedy.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Sequence

import xllamacpp


def server_of(target: str, drafter: str, n_max: int, threads: int) -> xllamacpp.Server:
    """A server with one slot."""
    params = xllamacpp.CommonParams()
    params.model.path = target
    params.n_ctx = 4096
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.endpoint_metrics = False
    kinds = xllamacpp.common_speculative_type
    params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_DFLASH]
    draft = params.speculative.draft
    draft.mparams.path = drafter
    draft.n_max = n_max
    draft.n_gpu_layers = 0
    draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(params)


def post(url: str, asked: dict[str, object]) -> dict[str, object]:
    """What the server answers; the object's own methods leave the token ids out."""
    request = urllib.request.Request(
        url, json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main(arguments: Sequence[str]) -> None:
    """Serves stdin."""
    target, drafter, n_max, tokens, threads = arguments
    server = server_of(target, drafter, int(n_max), int(threads))
    for line in sys.stdin:
        asked = {
            "prompt": json.loads(line),
            "n_predict": int(tokens),
            "temperature": 0.0,
            "cache_prompt": False,
            "return_tokens": True,
            "stream": False,
        }
        answer = post(f"{server.listening_address}/completion", asked)
        timings = answer["timings"]
        told = {name: timings.get(name, 0) for name in ("draft_n", "draft_n_accepted")}
        print(json.dumps({"tokens": answer["tokens"], **told}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
