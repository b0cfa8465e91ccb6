"""CleanRL's scripts, a module per algorithm.

Each names the SCRIPT in cleanrl 1.2.0 and the hash of its bytes, and the script's global names of
the NETWORKS that it trains; `settings(t, hp, context)` makes its command line, and
`greedy(names, observations, context)` acts as its policy without noise.
"""
