"""Training drafters, in stages that can be run, resumed and looked at apart.

`answers` lets the target answer prompts and keeps what a drafter listens to; `fit` trains a drafter
on them; `measure` says what it is worth on answers it has not seen. Nothing here is needed to run
a drafter.
"""
