"""Who notices a fault: mutants of upstream's code, and what the probes say about them."""
