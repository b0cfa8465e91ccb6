"""Differential tests of single updates with the same weights, minibatch and noise.

A probe answers one question. Upstream's own training code runs on a scripted environment with
scripted random numbers. The steps of its optimizers are recorded and compared with the paper's
formula in NumPy float64 and with the other implementations.
"""
