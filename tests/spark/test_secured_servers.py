"""Goal: requests are signed and encrypted as the options say, and nobody sees the secret. Method: a broker with accounts that
speaks nothing but TLS. Also of spark/servers/servers.py and spark/servers/signature.py."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import orbitmq
from orbitmq.errors import ProtocolError, TimedOut
from orbitmq.spark.servers.signature import signed
from orbitmq.spark.source.options import SourceOptions, parse
from orbitmq.spark.source.snapshot import of_options
from tests.actors.remoting_kinds import CERTIFICATES
from tests.native import acl_model
from tests.spark.test_servers import pulled
from tests.trees import indexed, small_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 50
SECRET = "of-the-reader-alone"
RULES = f"""\
accounts:
- accessKey: reader-1
  secretKey: {SECRET}
  topicPerms: [orders=SUB]
  groupPerms: [TOOLS_CONSUMER=SUB]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    folder = tmp_path_factory.mktemp("secured")
    (folder / "plain_acl.yml").write_text(RULES)
    first = {"tls_cert": str(CERTIFICATES / "first.pem"), "tls_key": str(CERTIFICATES / "first.key"), "tls": "enforcing"}
    acl = str(folder / "plain_acl.yml")
    with small_broker(folder / "store", listen="127.0.0.1:0", acl=acl, **first) as broker:
        for topic in "orders", "secrets":
            broker.create_topic(topic, 2)
            with broker.producer() as producer:
                producer.send_batch(topic, [b"%d" % number for number in range(COUNT)])
        indexed(broker)
        yield broker


def options(broker: orbitmq.Broker, **more: str) -> dict[str, str]:
    keys = {"accessKey": "reader-1", "secretKey": SECRET}
    tls = {"tls": "true", "tlsTrust": str(CERTIFICATES / "first.pem")}
    return {"servers": broker.status().listens, "subscribe": "orders", "timeout": "60s", **keys, **tls, **more}


def asked(broker: orbitmq.Broker, *without: str, **more: str) -> SourceOptions:
    return parse({name: value for name, value in options(broker, **more).items() if name not in without})


def test_who_may(broker: orbitmq.Broker) -> None:
    assert pulled(asked(broker, columns="value")).num_rows == COUNT
    assert pulled(asked(broker, "tlsTrust", columns="value", tlsVerify="false")).num_rows == COUNT


def test_who_may_not(broker: orbitmq.Broker) -> None:
    wrong = "of-somebody-else"
    with pytest.raises(ProtocolError, match="AclException: Check signature failed") as caught:
        pulled(asked(broker, secretKey=wrong))
    assert wrong not in str(caught.value) and caught.value.code == 1
    with pytest.raises(ProtocolError, match="No default permission for topic:secrets"):
        pulled(asked(broker, subscribe="secrets"))
    with pytest.raises(ProtocolError, match="AclException"):
        pulled(asked(broker, "accessKey", "secretKey"))


def test_certificates_that_are_not_believed(broker: orbitmq.Broker) -> None:
    """At once: waiting does not help."""
    for without, more in ((["tlsTrust"], {}), ([], {"tlsTrust": str(CERTIFICATES / "second.pem")})):
        with pytest.raises(ProtocolError, match="its certificate is not believed") as caught:
            pulled(asked(broker, *without, **more))
        assert "tlsTrust" in str(caught.value.remedy)


def test_in_clear(broker: orbitmq.Broker) -> None:
    """The broker closes the connection, as one does that dies."""
    with pytest.raises(TimedOut):
        of_options(asked(broker, "tls", "tlsTrust", timeout="50ms"))


def test_signatures() -> None:
    fields = {"topic": "t\u00e4", "b": "", "a": "1"}
    expected = acl_model.signature("secret-1", {**fields, "AccessKey": "access-1"}, b"body")
    assert signed(fields, b"body", "access-1", "secret-1") == {**fields, "AccessKey": "access-1", "Signature": expected}


def test_options_keep_the_secret(broker: orbitmq.Broker) -> None:
    made = asked(broker)
    assert SECRET not in repr(made) and SECRET not in str(made.servers)
    assert pickle.loads(pickle.dumps(made)) == made and made.servers is not None and made.servers.secret == SECRET


@pytest.mark.pyspark
def test_plans_keep_the_secret(spark: SparkSession, broker: orbitmq.Broker, capfd: pytest.CaptureFixture[str]) -> None:
    frame = spark.read.format("orbitmq").options(**options(broker)).load()
    assert frame.count() == COUNT
    frame.explain(extended=True)
    stream = spark.readStream.format("orbitmq").options(**options(broker, startingOffsets="earliest")).load()
    query = stream.writeStream.format("memory").queryName("secured").trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(extended=True)
    assert spark.table("secured").count() == COUNT
    told = capfd.readouterr()
    assert "orbitmq" in told.out.lower() and SECRET not in told.out + told.err
    assert all(SECRET not in progress.json for progress in query.recentProgress)
    wrong = spark.read.format("orbitmq").options(**options(broker, subscribe="nowhere"))
    with pytest.raises(Exception, match="nowhere") as caught:
        wrong.load().count()
    assert SECRET not in str(caught.value)
