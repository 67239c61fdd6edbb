"""One Spark session for all tests of this folder: starting a JVM takes longer than the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from orbitmq.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session. Without Java its tests fail, and say what to install."""
    from orbitmq.spark.session import local_session

    try:
        session = local_session("orbitmq tests", cores=2)
    except SettingError as error:
        pytest.fail(f"the tests of Spark need Java: {error}", pytrace=False)
    yield session
    session.stop()
