"""A streaming query as a program of its own, to be killed: writes a stream to Parquet as long as it lives.

python stream_query.py '{"path": ..., "subscribe": ...}' <folder of the output> <folder of the checkpoint>
"""

from __future__ import annotations

import json
import sys

from orbitmq.spark.session import local_session


def main(options: dict[str, str], out: str, checkpoint: str) -> None:
    spark = local_session("orbitmq stream", cores=2, memory="512m")
    stream = spark.readStream.format("orbitmq").options(**options).load()
    writer = stream.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
