"""The file for spark-submit: `spark-submit --master ... CHECKOUT/cli/spark_submit.py STORE OUT ...`, otherwise as `orbitmq
export`. With a checkout, the package need not be installed, as long as executors see the checkout under the same path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

if __name__ == "__main__":
    if importlib.util.find_spec("orbitmq") is None:
        sys.path.append(str(Path(__file__).resolve().parent.parent))
    from orbitmq.cli.main import main

    sys.argv[1:1] = ["export"]
    main()
