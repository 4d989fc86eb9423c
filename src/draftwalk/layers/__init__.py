"""Parts that targets and drafters are made of: each knows its weights and how to run.

A part runs on the operations it is given and computes nothing by itself.
"""
