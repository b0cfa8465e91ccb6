"""Differential tests of single updates: same weights, same minibatch, same noise, what comes out?

A probe answers one question. Upstream's own training code runs on a scripted environment with
dictated random numbers; what its optimisers did is read out and compared with the paper's
formula in NumPy float64 and with the other implementations.
"""
