"""Which transitions are replayed, and how much each counts: numbers only, of no framework."""
