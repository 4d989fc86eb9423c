"""What would compute here, and what it promises."""

from __future__ import annotations

from draftwalk.cli.facts import Facts
from draftwalk.cli.sizing import back_end
from draftwalk.engine import Placement
from draftwalk.ops.choice import extension_fault, instruction_sets
from draftwalk.ops.cores import available_cores

_OF_BITS = (
    "a row's logits are the same bits in whatever company it is computed, so speculative text "
    "equals plain text, token for token"
)
_OF_DISTRIBUTION = (
    "the promise is about the distribution: text is distributed as plain decoding's, and equality "
    "token for token is tested in float64; in other types a near-tie can fall either way"
)


def back_end_facts(placement: Placement) -> Facts:
    """The back end of a placement.

    Raises:
        UserError: nothing can compute as it is asked for.
    """
    fault = extension_fault()
    if back_end(placement) == "native":
        return {
            "name": "native",
            "native_extension": True,
            "instruction_set": instruction_sets()[0],
            "threads": placement.threads or available_cores(),
            "kv_type": placement.kv,
            "promise": _OF_BITS,
        }
    why = "without the native extension" if fault is not None else "on the torch back end"
    return {
        "name": "torch",
        "native_extension": fault is None,
        **({} if fault is None else {"extension_fault": fault}),
        "promise": f"{why} {_OF_DISTRIBUTION}",
    }
