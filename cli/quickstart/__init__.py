"""The whole pipeline on real data, from the first message to an answer from Spark: `scripts/quickstart`."""
