"""`scripts/bench`: every number in docs/performance.md comes from here."""
