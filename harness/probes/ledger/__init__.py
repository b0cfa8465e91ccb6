"""The ledger: statements about implementations, each judged by what a probe measured."""
