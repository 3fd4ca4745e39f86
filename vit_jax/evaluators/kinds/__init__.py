"""Declarations of the evaluators, which need no jax.

Configs are checked and reports are drawn from these records alone; the module
named in `build` is imported when an evaluator is built.
"""
