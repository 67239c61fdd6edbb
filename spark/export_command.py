"""The command behind scripts/spark_export."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence

from orbitmq.errors import OrbitError, UsageError
from orbitmq.spark.columns import COLUMNS
from orbitmq.spark.export import ExportReport, Progress, check_export, export_topic, topics_with_messages
from orbitmq.spark.session import local_session, require_java


def main(arguments: Sequence[str] | None = None) -> int:
    """Exports, tells about it on stderr, and prints a line for each topic: rows, bytes, seconds, folder."""
    parser = argparse.ArgumentParser(prog="spark_export", description="Writes topics of a store to Parquet.")
    parser.add_argument("source", help="folder of a store, running or stopped, or name of a running broker")
    parser.add_argument("out", help="folder for the Parquet files: one folder a topic in it")
    parser.add_argument("topics", nargs="*", metavar="topic", help="what to export; none: every topic that has messages")
    parser.add_argument("--columns", help=f"these only, separated by commas: {', '.join(COLUMNS)}")
    parser.add_argument("--overwrite", action="store_true", help="replace what an earlier export of the topic has left")
    given = parser.parse_args(arguments)
    columns = given.columns.split(",") if given.columns else None
    try:
        require_java()
        topics = given.topics or topics_with_messages(given.source)
        if not topics:
            print(f"spark_export: {given.source} holds no message", file=sys.stderr)
            return 0
        check_export(given.source, topics, given.out, overwrite=given.overwrite)
        from pyspark.errors import PySparkException

        _say("starting Spark")
        session = local_session("orbitmq export")
        try:
            for topic in topics:
                report = export_topic(
                    given.source,
                    topic,
                    given.out,
                    session,
                    overwrite=given.overwrite,
                    columns=columns,
                    progress=_progress(topic),
                )
                _say("")
                print(_line(report), flush=True)
        except PySparkException as error:
            # What went wrong in one of Spark's processes comes as text, between two stack traces.
            ours = re.search(r"orbitmq\.errors\.\w+: (.*)", str(error))
            if ours is None:
                raise
            _say("")
            print(f"spark_export: {ours[1]}", file=sys.stderr)
            return 1
        finally:
            session.stop()
    except (OrbitError, ImportError) as error:
        _say("")
        print(f"spark_export: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


def _line(report: ExportReport) -> str:
    rate = report.rows / report.seconds if report.seconds else 0.0
    size = report.size / 1e6
    return f"{report.topic}: {report.rows:,} rows, {size:,.1f} MB, {report.seconds:.1f} s, {rate:,.0f} rows/s: {report.path}"


def _progress(topic: str) -> Progress:
    def tell(done: int, tasks: int) -> None:
        width = 30
        bar = "#" * (width * done // max(tasks, 1))
        _say(f"{topic} [{bar:<{width}}] {done} of {tasks} tasks")

    return tell


def _say(text: str) -> None:
    """Replaces the line of progress on a terminal; elsewhere there is none."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
