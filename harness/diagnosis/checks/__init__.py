"""All checks, one file per subject."""
