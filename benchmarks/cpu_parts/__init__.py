"""Parts of `benchmarks/cpu.py` and `benchmarks/kl.py`.

Nothing is imported here: `worker.py` runs in the referee's environment too, which has no draftwalk.
"""
