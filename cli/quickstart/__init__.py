"""The main job on real data, from the first message to an answer out of Spark: `scripts/quickstart`."""
