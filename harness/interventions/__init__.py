"""Changes of exactly one thing in a training, as data, and the engine that makes them."""
