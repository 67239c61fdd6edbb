"""What known_exchanges.json holds the answers to, in this order: every code of RocketMQ 4.9 that a client or an operator sends,
with right and with wrong requests. Each says with which class RocketMQ writes it."""

from __future__ import annotations

from tests.actors.known_exchanges import BORN_MS, BROKER, CLIENT, NAMES, SAID, Exchange, as_json, pulled, sent, topic
from tests.actors.remoting_batch import Entry, batch_of

CREATE, PULL = "CreateTopicRequestHeader", "PullMessageRequestHeader"
V1, V2 = "SendMessageRequestHeader", "SendMessageRequestHeaderV2"
ROUTE = "namesrv.GetRouteInfoRequestHeader"
PROPERTIES = "KEYS\1k1 k2\2TAGS\1TagA\2UNIQ_KEY\0010123456789ABCDEF0123456789ABCDEF\2WAIT\1true"
SUBSCRIPTION = {"topic": "orders", "subString": "TagA || TagB", "tagsSet": ["TagA", "TagB"], "codeSet": [2598919, 2598920],
                "subVersion": BORN_MS, "expressionType": "TAG", "classFilterMode": False}  # fmt: skip
CONSUMER = {"groupName": "readers", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": False,
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [SUBSCRIPTION]}  # fmt: skip
QUEUES = [{"brokerName": "judged", "queueId": 1, "topic": "orders"}]
LOCK = as_json(consumerGroup="readers", clientId=CLIENT, mqSet=QUEUES)
GROUP = {"groupName": "readers", "retryMaxTimes": 7}
LONG = {"producerGroup": "desk", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1,
        "sysFlag": 0, "bornTimestamp": BORN_MS, "flag": 3, "properties": PROPERTIES, "reconsumeTimes": 0, "unitMode": False,
        "batch": False, "maxReconsumeTimes": 16}  # fmt: skip
TIMES = {"beginTimestamp": 0, "endTimestamp": 1 << 60}
UNITS = {"topic": "orders", "queueId": 1, "index": 0, "count": 2, "consumerGroup": "readers"}
BACK = {"offset": 0, "group": "readers", "delayLevel": 0, "originMsgId": "id", "originTopic": "orders", "unitMode": False,
        "maxReconsumeTimes": 16}  # fmt: skip
END = {"producerGroup": "desk", "tranStateTableOffset": 0, "commitLogOffset": 7, "commitOrRollback": 8,
       "fromTransactionCheck": False, "msgId": "id", "transactionId": "id"}  # fmt: skip
RESET = {"topic": "orders", "group": "readers", "timestamp": 0, "isForce": True}
CLONE = {"srcGroup": "readers", "destGroup": "others", "topic": "orders", "offline": True}


def _checked(kind: str, text: str) -> bytes:
    told = {**SUBSCRIPTION, "expressionType": kind, "subString": text}
    return as_json(clientId=CLIENT, group="readers", subscriptionData=told)


def _committed(queue: int, offset: int, group: str = "readers", name: str = "orders") -> dict[str, object]:
    return {"consumerGroup": group, "topic": name, "queueId": queue, "commitOffset": offset}


TOPICS = (
    Exchange("make a topic", BROKER, 17, CREATE, topic("orders")),
    Exchange("make a topic whose name is reserved", BROKER, 17, CREATE, topic("SELF_TEST_TOPIC")),
    Exchange("make a topic whose name is none", BROKER, 17, CREATE, topic("a b")),
    Exchange("the route of a topic", NAMES, 105, ROUTE, {"topic": "orders"}),
    Exchange("the route of no topic", NAMES, 105, ROUTE, {"topic": "absent"}),
    Exchange("the cluster", NAMES, 106),
    Exchange("the topics of no cluster", NAMES, 224, "GetTopicsByClusterRequestHeader", {"cluster": "another"}),
    Exchange("all topics of a name server", NAMES, 206, only="keys"),
    Exchange("all topics of a broker", BROKER, 21, only="keys"),
    Exchange("topics of the system, by the broker", BROKER, 305, only="keys"),
)
GROUPS = (
    Exchange("make a group", BROKER, 200, body=as_json(**GROUP), body_class="subscription.SubscriptionGroupConfig"),
    Exchange("all groups", BROKER, 201, only="keys"),
    Exchange(
        "a heartbeat", BROKER, 34, body_class="protocol.heartbeat.HeartbeatData",
        body=as_json(clientID=CLIENT, consumerDataSet=[CONSUMER], producerDataSet=[{"groupName": "desk"}]),
    ),
    Exchange("members", BROKER, 38, "GetConsumerListByGroupRequestHeader", {"consumerGroup": "readers"}),
    Exchange("members of no group", BROKER, 38, "GetConsumerListByGroupRequestHeader", {"consumerGroup": "nobody"}),
    Exchange("consumers", BROKER, 203, "GetConsumerConnectionListRequestHeader", {"consumerGroup": "readers"}),
    Exchange("consumers of no group", BROKER, 203, "GetConsumerConnectionListRequestHeader", {"consumerGroup": "nobody"}),
    Exchange("producers", BROKER, 204, "GetProducerConnectionListRequestHeader", {"producerGroup": "desk"}),
    Exchange("producers of no group", BROKER, 204, "GetProducerConnectionListRequestHeader", {"producerGroup": "nobody"}),
    Exchange("check tags", BROKER, 46, body=_checked("TAG", "TagA"), body_class="protocol.body.CheckClientRequestBody"),
    Exchange("check a filter", BROKER, 46, body=_checked("SQL92", "a > 1"), body_class="protocol.body.CheckClientRequestBody"),
    Exchange("check no filter", BROKER, 46, body=_checked("SQL92", "a >"), body_class="protocol.body.CheckClientRequestBody"),
    Exchange("lock queues", BROKER, 41, body=LOCK, body_class="protocol.body.LockBatchRequestBody"),
    Exchange("unlock queues", BROKER, 42, body=LOCK, body_class="protocol.body.UnlockBatchRequestBody"),
)
SENDS = (
    Exchange("send, in the short form", BROKER, 310, V2, sent(properties=PROPERTIES), b"one"),
    Exchange("send, in the long form", BROKER, 10, V1, LONG, b"two"),
    Exchange(
        "send a batch", BROKER, 320, V2, sent(properties="WAIT\1true", m=True),
        batch_of([Entry(b"three", b"KEYS\1k3\2UNIQ_KEY\1id-3", 1), Entry(b"four", b"TAGS\1TagB\2UNIQ_KEY\1id-4", 2)]),
    ),
    Exchange("send nothing as a batch", BROKER, 320, V2, sent(m=True)),
    Exchange("send to no topic", BROKER, 310, V2, sent("absent"), b"refused"),
    Exchange("send to no queue", BROKER, 310, V2, sent(queue=9), b"refused"),
    Exchange("send to what is no name", BROKER, 310, V2, sent("a b"), b"refused"),
    Exchange("send to a name that is too long", BROKER, 310, V2, sent("n" * 128), b"refused"),
    Exchange("send to the topic of delays", BROKER, 310, V2, sent("SCHEDULE_TOPIC_XXXX"), b"refused"),
    Exchange("send for no group's retries", BROKER, 310, V2, sent("%RETRY%nobody", 0), b"refused"),
)  # fmt: skip
READS = (
    Exchange("the end", BROKER, 30, "GetMaxOffsetRequestHeader", {"topic": "orders", "queueId": 1}, offset="4"),
    Exchange("the end of no topic", BROKER, 30, "GetMaxOffsetRequestHeader", {"topic": "absent", "queueId": 1}),
    Exchange("the end of no queue", BROKER, 30, "GetMaxOffsetRequestHeader", {"topic": "orders", "queueId": 9}),
    Exchange("the begin", BROKER, 31, "GetMinOffsetRequestHeader", {"topic": "orders", "queueId": 1}),
    Exchange("the begin of no topic", BROKER, 31, "GetMinOffsetRequestHeader", {"topic": "absent", "queueId": 1}),
    Exchange("pull", BROKER, 11, PULL, pulled()),
    Exchange("pull one", BROKER, 11, PULL, pulled(maxMsgNums=1)),
    Exchange("pull by tags", BROKER, 11, PULL, pulled(subscription="TagB")),
    Exchange("pull by a filter", BROKER, 11, PULL, pulled(subscription="TAGS = 'TagB'", expressionType="SQL92")),
    Exchange("pull what no filter says", BROKER, 11, PULL, pulled(subscription="a >", expressionType="SQL92")),
    Exchange("pull what there is not", BROKER, 11, PULL, pulled(subscription="TagZ")),
    Exchange("pull at the end", BROKER, 11, PULL, pulled(offset=4)),
    Exchange("pull from an empty queue", BROKER, 11, PULL, pulled(queue=0)),
    Exchange("pull behind an empty queue", BROKER, 11, PULL, pulled(queue=0, offset=3)),
    Exchange("pull by the heartbeat's tags", BROKER, 11, PULL, pulled(sysFlag=0, subscription=None)),
    Exchange("pull by a newer subscription", BROKER, 11, PULL, pulled(sysFlag=0, subscription=None, subVersion=BORN_MS + 1)),
    Exchange("pull for nobody", BROKER, 11, PULL, pulled(sysFlag=0, subscription=None, consumerGroup="nobody")),
    Exchange("pull from no queue", BROKER, 11, PULL, pulled(queue=9)),
    Exchange("pull from no topic", BROKER, 11, PULL, pulled("absent")),
    Exchange("the first message's time", BROKER, 32, "GetEarliestMsgStoretimeRequestHeader", {"topic": "orders", "queueId": 1}),
    Exchange("no message's time", BROKER, 32, "GetEarliestMsgStoretimeRequestHeader", {"topic": "orders", "queueId": 0}),
    Exchange("no topic's time", BROKER, 32, "GetEarliestMsgStoretimeRequestHeader", {"topic": "absent", "queueId": 0}),
    Exchange("by an early time", BROKER, 29, "SearchOffsetRequestHeader", {"topic": "orders", "queueId": 1, "timestamp": 1}),
    Exchange(
        "by a late time", BROKER, 29, "SearchOffsetRequestHeader",
        {"topic": "orders", "queueId": 1, "timestamp": 1 << 60},
    ),
    Exchange("by time in no topic", BROKER, 29, "SearchOffsetRequestHeader", {"topic": "absent", "queueId": 1, "timestamp": 1}),
    Exchange("by place", BROKER, 33, "ViewMessageRequestHeader", {"offset": 0}),
    Exchange("by no place", BROKER, 33, "ViewMessageRequestHeader", {"offset": 1 << 40}),
    Exchange(
        "by key", BROKER, 12, "QueryMessageRequestHeader",
        {"topic": "orders", "key": "k3", "maxNum": 8, **TIMES}, waits=0,
    ),
    Exchange("by no key", BROKER, 12, "QueryMessageRequestHeader", {"topic": "orders", "key": "none", "maxNum": 8, **TIMES}),
    Exchange(
        "by key in no topic", BROKER, 12, "QueryMessageRequestHeader",
        {"topic": "absent", "key": "k", "maxNum": 8, **TIMES},
    ),
    Exchange("units of a queue", BROKER, 321, "QueryConsumeQueueRequestHeader", UNITS),
    Exchange("units of no queue", BROKER, 321, "QueryConsumeQueueRequestHeader", {**UNITS, "queueId": 8}),
)
OFFSETS = (
    Exchange(
        "where a group begins", BROKER, 14, "QueryConsumerOffsetRequestHeader",
        {"consumerGroup": "readers", "topic": "orders", "queueId": 1},
    ),
    Exchange(
        "where a group begins in no queue", BROKER, 14, "QueryConsumerOffsetRequestHeader",
        {"consumerGroup": "readers", "topic": "orders", "queueId": 9},
    ),
    Exchange(
        "where a group begins in no topic", BROKER, 14, "QueryConsumerOffsetRequestHeader",
        {"consumerGroup": "readers", "topic": "absent", "queueId": 1},
    ),
    Exchange("commit", BROKER, 15, "UpdateConsumerOffsetRequestHeader", _committed(1, 3)),
    Exchange("commit in the other queue", BROKER, 15, "UpdateConsumerOffsetRequestHeader", _committed(0, 0)),
    Exchange(
        "where a group is", BROKER, 14, "QueryConsumerOffsetRequestHeader",
        {"consumerGroup": "readers", "topic": "orders", "queueId": 1},
    ),
    Exchange(
        "the progress of a group", BROKER, 208, "GetConsumeStatsRequestHeader",
        {"consumerGroup": "readers", "topic": "orders"},
    ),
    Exchange("the progress of no group", BROKER, 208, "GetConsumeStatsRequestHeader", {"consumerGroup": "nobody"}),
    Exchange("the progress of all groups", BROKER, 317, "GetConsumeStatsInBrokerHeader", {"isOrder": False}, only="keys"),
    Exchange("the bounds of a topic", BROKER, 202, "GetTopicStatsInfoRequestHeader", {"topic": "orders"}),
    Exchange("the bounds of no topic", BROKER, 202, "GetTopicStatsInfoRequestHeader", {"topic": "absent"}),
    Exchange("who consumes a topic", BROKER, 300, "QueryTopicConsumeByWhoRequestHeader", {"topic": "orders"}),
    Exchange("who consumes no topic", BROKER, 300, "QueryTopicConsumeByWhoRequestHeader", {"topic": "absent"}),
    Exchange("go on where another group is", BROKER, 314, "CloneGroupOffsetRequestHeader", CLONE),
    Exchange(
        "where it goes on", BROKER, 14, "QueryConsumerOffsetRequestHeader",
        {"consumerGroup": "others", "topic": "orders", "queueId": 1},
    ),
    Exchange("reset in no topic", BROKER, 222, "ResetOffsetRequestHeader", {**RESET, "topic": "absent"}),
    Exchange("reset a group that has nothing", BROKER, 222, "ResetOffsetRequestHeader", {**RESET, "group": "nobody"}),
    Exchange("reset a group without members", BROKER, 222, "ResetOffsetRequestHeader", {**RESET, "group": "others"}),
    Exchange("reset a group", BROKER, 222, "ResetOffsetRequestHeader", RESET),
)  # fmt: skip
OTHERS = (
    Exchange("give back", BROKER, 36, "ConsumerSendMsgBackRequestHeader", BACK),
    Exchange("give back what is not there", BROKER, 36, "ConsumerSendMsgBackRequestHeader", {**BACK, "offset": 1 << 40}),
    Exchange("give back for no group", BROKER, 36, "ConsumerSendMsgBackRequestHeader", {**BACK, "group": "nobody"}),
    Exchange("end what did not begin", BROKER, 37, "EndTransactionRequestHeader", END),
    Exchange(
        "how fast a topic grows", BROKER, 315, "ViewBrokerStatsDataRequestHeader",
        {"statsName": "TOPIC_PUT_NUMS", "statsKey": "orders"}, only="keys",
    ),
    Exchange(
        "how fast nothing grows", BROKER, 315, "ViewBrokerStatsDataRequestHeader",
        {"statsName": "TOPIC_PUT_NUMS", "statsKey": "absent"},
    ),
    Exchange(
        "ask who is not there what it does", BROKER, 307, "GetConsumerRunningInfoRequestHeader",
        {"consumerGroup": "readers", "clientId": "nobody", "jstackEnable": False},
    ),
    Exchange(
        "have who is not there process one", BROKER, 309, "ConsumeMessageDirectlyResultRequestHeader",
        {"consumerGroup": "readers", "clientId": "nobody", "msgId": "7F00000100002A9F0000000000000000", "brokerName": "judged"},
    ),
    Exchange("settings of the broker", BROKER, 26, only="names"),
    Exchange("change nothing", BROKER, 25),
    Exchange("what the broker is doing", BROKER, 28, waits=0, only="keys"),
    Exchange("clean queues", BROKER, 306),
    Exchange("clean topics", BROKER, 316),
    Exchange("settings of the name server", NAMES, 319, only="names"),
    Exchange("change settings of the name server, at the broker", BROKER, 318),
    Exchange("no code", BROKER, 9999),
    Exchange("keep a value", NAMES, 100, "namesrv.PutKVConfigRequestHeader", {"namespace": "known", "key": "k", "value": "v"}),
    Exchange("a value", NAMES, 101, "namesrv.GetKVConfigRequestHeader", {"namespace": "known", "key": "k"}),
    Exchange("no value", NAMES, 101, "namesrv.GetKVConfigRequestHeader", {"namespace": "known", "key": "none"}),
    Exchange("values", NAMES, 219, "namesrv.GetKVListByNamespaceRequestHeader", {"namespace": "known"}),
    Exchange("no values", NAMES, 219, "namesrv.GetKVListByNamespaceRequestHeader", {"namespace": "none"}),
    Exchange("forget a value", NAMES, 102, "namesrv.DeleteKVConfigRequestHeader", {"namespace": "known", "key": "k"}),
    Exchange("take no broker out", NAMES, 205, "namesrv.WipeWritePermOfBrokerRequestHeader", {"brokerName": "another"}),
    Exchange("take no broker back", NAMES, 327, "namesrv.AddWritePermOfBrokerRequestHeader", {"brokerName": "another"}),
    Exchange(
        "take the broker out", NAMES, 205, "namesrv.WipeWritePermOfBrokerRequestHeader",
        {"brokerName": "judged"}, only="names",
    ),
    Exchange("the route of a broker that is out", NAMES, 105, ROUTE, {"topic": "orders"}),
    Exchange(
        "take the broker back", NAMES, 327, "namesrv.AddWritePermOfBrokerRequestHeader",
        {"brokerName": "judged"}, only="names",
    ),
    Exchange("the route of a broker that is back", NAMES, 105, ROUTE, {"topic": "orders"}),
    Exchange(
        "leave a group", BROKER, 35, "UnregisterClientRequestHeader",
        {"clientID": CLIENT, "producerGroup": "desk", "consumerGroup": "readers"},
    ),
    Exchange("nobody is left", BROKER, 38, "GetConsumerListByGroupRequestHeader", {"consumerGroup": "readers"}),
    Exchange("no producer is left", BROKER, 204, "GetProducerConnectionListRequestHeader", {"producerGroup": "desk"}),
    Exchange("pull behind the end", BROKER, 11, PULL, pulled(offset=99)),
    Exchange("pull before the begin", BROKER, 11, PULL, pulled(offset=-1)),
    Exchange(
        "delete no group", BROKER, 207, "DeleteSubscriptionGroupRequestHeader",
        {"groupName": "absent", "removeOffset": False},
    ),
    Exchange("delete no topic", BROKER, 215, "DeleteTopicRequestHeader", {"topic": "absent"}),
    Exchange("delete a topic", BROKER, 215, "DeleteTopicRequestHeader", {"topic": "orders"}),
    Exchange("forget its route", NAMES, 216, "DeleteTopicRequestHeader", {"topic": "orders"}),
    Exchange("the route of a topic that is gone", NAMES, 105, ROUTE, {"topic": "orders"}),
)  # fmt: skip
_REGISTERED = {"brokerName": "judged", "brokerAddr": "10.0.0.9:10911", "clusterName": "DefaultCluster", "brokerId": 0}
_TOPIC = {"order": False, "perm": 6, "readQueueNums": 3, "topicFilterType": "SINGLE_TAG", "topicName": "orders",
          "topicSysFlag": 0, "writeQueueNums": 3}  # fmt: skip
_WRAPPED = {"dataVersion": {"counter": 2, "timestamp": BORN_MS}, "topicConfigTable": {"orders": _TOPIC}}
REGISTRATION = Exchange(
    "register a broker", SAID, 103, "namesrv.RegisterBrokerRequestHeader",
    {**_REGISTERED, "haServerAddr": "10.0.0.9:10912", "compressed": False, "bodyCrc32": 0},
    as_json(filterServerList=[], topicConfigSerializeWrapper=_WRAPPED), "protocol.body.RegisterBrokerBody",
)  # fmt: skip
# What the broker says, or what is said to it and answered in other tests, or "not supported".
REST = (
    REGISTRATION,
    Exchange("unregister a broker", SAID, 104, "namesrv.UnRegisterBrokerRequestHeader", _REGISTERED),
    Exchange(
        "ask for a version", SAID, 322, "namesrv.QueryDataVersionRequestHeader", _REGISTERED,
        as_json(counter=2, timestamp=BORN_MS), "DataVersion",
    ),
    Exchange(
        "ask how a transaction ends", SAID, 39, "CheckTransactionStateRequestHeader",
        {"tranStateTableOffset": 5, "commitLogOffset": 700, "msgId": "id", "transactionId": "id", "offsetMsgId": "7F00"},
    ),
    Exchange("tell of a change", SAID, 40, "NotifyConsumerIdsChangedRequestHeader", {"consumerGroup": "readers"}),
    Exchange(
        "have a consumer go on", SAID, 220, "ResetOffsetRequestHeader", {**RESET, "isForce": False},
        as_json(offsetTable={}), "protocol.body.ResetOffsetBody",
    ),
    Exchange("ask where it is", SAID, 221, "GetConsumerStatusRequestHeader", {"topic": "orders", "group": "readers"}),
    Exchange(
        "push a reply", SAID, 326, "ReplyMessageRequestHeader",
        {**{name: value for name, value in LONG.items() if name not in ("batch", "maxReconsumeTimes")},
         "bornHost": "/10.0.0.1:5", "storeHost": "/10.0.0.9:10911", "storeTimestamp": BORN_MS}, b"reply",
    ),
    Exchange("reply, in the long form", SAID, 324, V1, {**LONG, "topic": "DefaultCluster_REPLY_TOPIC"}, b"reply"),
    Exchange("reply, in the short form", SAID, 325, V2, sent("DefaultCluster_REPLY_TOPIC"), b"reply"),
    Exchange(
        "make an account", SAID, 50, "CreateAccessConfigRequestHeader",
        {"accessKey": "desk-key", "secretKey": "desk-secret", "whiteRemoteAddress": "10.0.0.1", "admin": False,
         "defaultTopicPerm": "DENY", "defaultGroupPerm": "SUB", "topicPerms": "orders=PUB", "groupPerms": "readers=SUB"},
    ),
    Exchange("delete an account", SAID, 51, "DeleteAccessConfigRequestHeader", {"accessKey": "desk-key"}),
    Exchange("ask for the accounts' version", SAID, 52),
    Exchange("put addresses", SAID, 53, "UpdateGlobalWhiteAddrsConfigRequestHeader", {"globalWhiteAddrs": "10.0.0.*"}),
    Exchange("list accounts", SAID, 54),
    Exchange("all offsets", SAID, 43),
    Exchange("all delay offsets", SAID, 45),
    Exchange("have clients asked", SAID, 223, "GetConsumerStatusRequestHeader", {"topic": "orders", "group": "g"}),
    Exchange("how long they wait", SAID, 303, "QueryConsumeTimeSpanRequestHeader", {"topic": "orders", "group": "readers"}),
    Exchange("correct offsets", SAID, 308, "QueryCorrectionOffsetHeader", {"compareGroup": "readers", "topic": "orders"}),
    Exchange("check a half again", SAID, 323, "ResumeCheckHalfMessageRequestHeader", {"msgId": "7F00"}),
)  # fmt: skip
EXCHANGES = (*TOPICS, *GROUPS, *SENDS, *READS, *OFFSETS, *OTHERS)
