"""Which of skrl's agents trains, with which options and models: a module per algorithm.

Each has `parts(settings, spaces)`.
"""
