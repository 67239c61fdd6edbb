"""Goal: the commands that operators give to mqadmin now and then work as with RocketMQ's own broker, one after the other.

Method: the real mqadmin runs the same commands against both brokers, and prints the same words; numbers and addresses differ.
What the numbers must be is in tests/actors/test_gateway_operators.py. The commands of daily work are in test_mqadmin.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orbitmq
from tests.interop.judge import Judge
from tests.interop.ours import visiting
from tests.interop.test_mqadmin import CLUSTER, NAME, Tool, broker, form, ours, theirs  # noqa: F401
from tests.trees import indexed
from tests.waiting import WATCHDOG_S, until

BROKER, ADDRESS, FOLDER = "(broker)", "(address)", "(folder)"
COMMANDS = {
    "updateTopic": ("-c", CLUSTER, "-t", "orders", "-r", "2", "-w", "2"),
    "allocateMQ": ("-t", "orders", "-i", "10.0.0.1,10.0.0.2"),
    "sendMessage": ("-t", "orders", "-p", "hello", "-b", BROKER, "-i", "0", "-k", "k1", "-c", "TagA"),
    "checkMsgSendRT": ("-t", "orders", "-a", "3", "-s", "100"),
    "statsAll": ("-t", "orders"),
    "queryCq": ("-t", "orders", "-q", "0", "-i", "0", "-c", "1", "-b", ADDRESS),
    "consumeMessage": ("-t", "orders", "-b", BROKER, "-i", "0", "-o", "0", "-c", "1"),
    "updateSubGroup": ("-c", CLUSTER, "-g", "readers"),
    "wipeWritePerm": ("-b", BROKER),
    "addWritePerm": ("-b", BROKER),
    "updateKvConfig": ("-s", "space", "-k", "key", "-v", "value"),
    "deleteKvConfig": ("-s", "space", "-k", "key"),
    "updateBrokerConfig": ("-b", ADDRESS, "-k", "transactionTimeOut", "-v", "7000"),
    "cleanExpiredCQ": ("-b", ADDRESS),
    "cleanUnusedTopic": ("-c", CLUSTER),
    "exportMetadata": ("-c", CLUSTER, "-f", FOLDER),
    "exportConfigs": ("-c", CLUSTER, "-f", FOLDER),
}


# The tool keeps one client for each of these, which cannot be started again for another broker.
OURS_ONLY = {"sendMessage", "consumeMessage"}
WANTED = {
    "sendMessage": r"^judged +0 +SEND_OK +[0-9A-F]{32,} *$",
    "consumeMessage": r"^Consume ok$\n^MSGID: .*BODY: hello$",
}


def told(run: Tool, command: str, *words: str) -> str:
    """What the command prints. checkMsgSendRT says `false` of a message that is not answered within 3 s: then it runs again."""
    said = ""

    def sent() -> bool:
        nonlocal said
        said = run(command, *words)
        return command != "checkMsgSendRT" or not re.search(r"\bfalse\b", said)

    until(sent, "answers to what the tool sends")
    return said


def test_each_command(judge: Judge, broker: orbitmq.Broker, ours: Tool, theirs: Tool, tmp_path: Path) -> None:  # noqa: F811
    """One after the other, at both brokers."""
    for command, words in COMMANDS.items():
        runs = {"ours": (ours, broker.status().listens), "theirs": (theirs, judge.addresses[1])}
        said = {}
        for who in ["ours"] if command in OURS_ONLY else runs:
            run, address = runs[who]
            folder = str(tmp_path / f"exported-{who}")
            given = {BROKER: NAME, ADDRESS: address, FOLDER: folder}
            said[who] = told(run, command, *(given.get(word, word) for word in words)).replace(folder, FOLDER)
        if command in WANTED:
            assert re.search(WANTED[command], said["ours"], re.MULTILINE), said
        else:
            assert form(said["ours"]) and form(said["ours"]) == form(said["theirs"]), command
    for who in ("ours", "theirs"):
        content = json.loads((tmp_path / f"exported-{who}" / "metadata.json").read_text())
        assert "orders" in content["topicConfigTable"] and "readers" in content["subscriptionGroupTable"]


def test_progress(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:  # noqa: F811
    """Goal: brokerConsumeStats shows local groups, and cloneGroupOffset has another group go on where one is."""
    broker.create_topic("orders", queues=1)
    with broker.producer() as producer:
        for number in range(3):
            producer.send("orders", b"%d" % number)
    indexed(broker)
    with broker.consumer("readers", ["orders"], start="earliest") as consumer:
        assert len(consumer.poll_batch(2, timeout=WATCHDOG_S)) == 2
        consumer.commit()
    address = broker.status().listens
    line = next(line for line in ours("brokerConsumeStats", "-b", address).splitlines() if line.startswith("orders"))
    assert line.split()[:7] == ["orders", "readers", NAME, "0", "3", "2", "1"]
    assert "success" in ours("cloneGroupOffset", "-s", "readers", "-d", "others", "-t", "orders", "-o", "true")
    with broker.consumer("others", ["orders"], start="earliest") as consumer:
        assert [message.body for message in consumer.poll_batch(9, timeout=WATCHDOG_S)] == [b"2"]


def test_a_broker_out_of_the_routes(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:  # noqa: F811
    broker.create_topic("orders", queues=1)
    for command, perm in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        assert f"in name server[{broker.status().listens}] OK" in ours(command, "-b", NAME)
        assert f'"perm":{perm}' in re.sub(r"\s", "", ours("topicRoute", "-t", "orders"))


def test_questions(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:  # noqa: F811
    """Goal: consumerStatus shows what Java's consumer does, and queryMsgById has it process one message again."""
    broker.create_topic("orders", queues=1)
    with broker.producer() as producer:
        receipt = producer.send("orders", b"once more")
    with visiting(judge, broker):
        judge.ask("join", member="one", topic="orders", group="readers", tags="*", broadcast=False)
        seen: list[Any] = []
        until(lambda: len(seen) >= 1 or seen.extend(judge.ask("came", member="one")), "the message")
        (client,) = re.findall(r"^([\d.]+@one) ", ours("consumerConnection", "-g", "readers"), re.MULTILINE)
        said = ours("consumerStatus", "-g", "readers", "-i", client)
        for words in ("PROP_CONSUME_TYPE", "#Consumer RT&TPS#", "orders"):
            assert words in said, said
        said = ours("queryMsgById", "-i", receipt.id, "-g", "readers", "-d", client)
        assert "consumeResult=CR_SUCCESS" in said, said
        until(lambda: len(seen) >= 2 or seen.extend(judge.ask("came", member="one")), "the message again")
        judge.ask("quit", member="one")


def test_the_name_server_s_settings(broker: orbitmq.Broker, ours: Tool) -> None:  # noqa: F811
    port = broker.status().listens.rpartition(":")[2]
    assert re.search(rf"^listenPort += +{port}$", ours("getNamesrvConfig"), re.MULTILINE)


def test_traces(broker: orbitmq.Broker, ours: Tool) -> None:  # noqa: F811
    """Goal: queryMsgTraceById shows what a client with tracing has told of a send, here in the form of RocketMQ's client."""
    broker.create_topic("RMQ_SYS_TRACE_TOPIC", queues=1)
    of_message = "orders", "ID1", "paid", "k1", "10.0.0.1:10911", "4"
    words = "Pub", "1700000000000", "", "desk", *of_message, "7", "0", "ID2", "true"
    with broker.producer() as producer:
        producer.send("RMQ_SYS_TRACE_TOPIC", "\1".join(words).encode() + b"\2", keys=["ID1"])
    until(lambda: [*broker.find("RMQ_SYS_TRACE_TOPIC", "ID1")], "the index")
    said = ours("queryMsgTraceById", "-i", "ID1")
    assert re.search(r"^Pub +desk .* 7ms +success", said, re.MULTILINE), said


def test_the_table_of_commands() -> None:
    """Goal: docs/mqadmin.md names each command with a file of tests that gives it to the tool."""
    here = Path(__file__).parent
    text = (here.parents[1] / "docs/mqadmin.md").read_text()
    rows = re.findall(r"^\| (`.*`) \| .* \| `(test_\w+\.py)` \|$", text, re.MULTILINE)
    assert len(rows) >= 20
    for commands, file in rows:
        for command in re.findall(r"`(\w+)`", commands):
            assert f'"{command}"' in (here / file).read_text(), (command, file)
