"""A DataFrame's columns as messages: which columns are allowed, of which types, and how a batch of them becomes bodies and
finished properties strings. Everything is done a column at a time, in Arrow; no Python object stands for a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.errors import ColumnError, MessageTooLarge, PropertiesTooLarge
from orbitmq.errors.remedy import Hint, hint
from orbitmq.shm.property_name import NOTE, REPLY, WISH, reserved_property, why_reserved
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.tables import carried
from orbitmq.tables.carried import ROW_NAME

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TYPES = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "tags": ("string",),
    "keys": ("array<string>",),
    "properties": ("map<string,string>",),
    "flag": ("int",),
}
# Columns that the source also has and that the broker sets anew. They are ignored, so a topic that was read can be written as
# it is.
GIVEN_OUT = frozenset(
    {
        "offset",
        "timestamp",
        "timestampType",
        "message_id",
        "physical_offset",
        "born_timestamp",
        "born_host",
        "store_host",
        "reconsume_times",
    }
)
ROW_NAME_MAX = 64  # most bytes that it takes, name and separators included
PROPERTIES_MOST = 32_767 - 21 - ROW_NAME_MAX  # of a record, without its CRC property and the row's name
AROUND = 91 + 20 + ROW_NAME_MAX  # bytes of a record besides body, properties and topic
_NOT_OURS = ("WAIT", "__CRC32#", ROW_NAME)  # dropped: they describe the message that was read

STAGED = pa.schema(
    [
        ("topic", pa.string()),
        ("body", pa.large_binary()),
        ("properties", pa.large_binary()),
        ("queue", pa.int32()),
        ("flag", pa.int32()),
        ("queue_key", pa.large_binary()),
    ]
)


def check(schema: StructType, topic: str | None) -> None:
    """Raises: ColumnError: a column cannot be sent, or is missing; has .column, and if the type is the reason, .type and
    .types."""
    for field in schema.fields:
        name, found = field.name, field.dataType.simpleString()
        if name in GIVEN_OUT:
            continue
        if name not in TYPES:
            raise ColumnError(
                f"cannot write column {name!r}: the sink has no such column",
                hint=f"select or rename; it has {', '.join(TYPES)}",
                column=name,
            )
        if found not in TYPES[name]:
            raise ColumnError(
                f"cannot write column {name!r} of type {found}: {' or '.join(TYPES[name])} would do",
                hint=f"cast it, or make it JSON with to_json{'' if name == 'value' else ', or leave it out'}",
                column=name,
                type=found,
                types=TYPES[name],
            )
    names = set(schema.fieldNames())
    if "value" not in names:
        raise ColumnError(
            "cannot write without a column 'value': string or binary would do",
            hint="name the body's column so: df.select(to_json(struct('*')).alias('value'))",
            column="value",
        )
    if topic is None and "topic" not in names:
        raise ColumnError(
            "cannot write without a topic: there is neither the option topic nor a column 'topic'",
            hint=hint("give {topic of spark}"),
            column="topic",
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """Makes messages of batches. topic: of all rows, or None. message_max: of a record, bytes."""

    topic: str | None
    message_max: int

    def messages(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the columns of STAGED. A negative queue means none, and so does an empty queue_key.

        Raises: ColumnError, TopicNameError, MessageTooLarge, PropertiesTooLarge.
        """
        rows = batch.num_rows
        columns = {name: _whole(batch.column(name)) for name in batch.schema.names if name in TYPES}
        _require(columns["value"], "value", "is null", columns["value"].is_null())
        body = _bytes(columns["value"])
        topic = self._topics(columns, rows)
        key = _bytes(columns["key"]) if "key" in columns else None
        properties = pc.cast(_properties(columns, rows), pa.large_binary())
        queue = pc.fill_null(columns["partition"], -1) if "partition" in columns else _same(-1, rows)
        if "partition" in columns:
            _require(columns["partition"], "partition", "is negative", pc.less(columns["partition"], 0))
        flag = pc.fill_null(columns["flag"], 0) if "flag" in columns else _same(0, rows)
        queue_key = pc.fill_null(key, b"") if key is not None else pa.repeat(pa.scalar(b"", pa.large_binary()), rows)
        messages = pa.RecordBatch.from_arrays([topic, body, properties, queue, flag, queue_key], schema=STAGED)
        self._measure(messages)
        return messages

    def _topics(self, columns: dict[str, Any], rows: int) -> Any:
        if self.topic is not None:
            return pa.repeat(pa.scalar(self.topic), rows)
        topics = pc.cast(columns["topic"], pa.string())
        _require(topics, "topic", "is null", topics.is_null(), hint("fill it || give {topic of spark}"))
        for name in pc.unique(topics).to_pylist():
            check_topic_name(name)
        return topics

    def _measure(self, messages: pa.RecordBatch) -> None:
        most = pc.max(pc.binary_length(messages["properties"])).as_py() or 0
        if most > PROPERTIES_MOST:
            raise PropertiesTooLarge(
                f"cannot write a row whose properties take {most:,} bytes, and the limit is {PROPERTIES_MOST:,}",
                hint="send fewer keys, headers or properties, or put them into the body",
                size=most,
                limit=PROPERTIES_MOST,
            )
        most = largest(messages)
        if most > self.message_max:
            raise MessageTooLarge(
                f"cannot write a row whose record takes {most:,} bytes, and the limit is {self.message_max:,}",
                hint=hint("raise {message_max of broker}, 16,711,680 at most || send it in parts"),
                size=most,
                limit=self.message_max,
            )


def largest(messages: pa.RecordBatch) -> int:
    """Upper limit, in bytes, of the size of the largest record; 0: there are none."""
    sizes = [pc.binary_length(messages[name]) for name in ("body", "properties")]
    most = pc.max(pc.add(pc.add(*sizes), pc.cast(pc.binary_length(messages["topic"]), pa.int64()))).as_py()
    return 0 if most is None else AROUND + int(most)


def _same(value: int, rows: int) -> Any:
    return pa.repeat(pa.scalar(value, pa.int32()), rows)


def _whole(column: Any) -> Any:
    """The column with its buffers beginning at row 0, on which the lists below rely."""
    return column.take(pa.array(range(len(column)), pa.int64())) if column.offset else column


def _bytes(column: Any) -> Any:
    return pc.cast(column, pa.large_binary())


def _require(column: Any, name: str, what: str, bad: Any, hint: Hint | str | None = None) -> None:
    """Raises: ColumnError: one of `bad` is true."""
    if pc.any(bad).as_py():
        first = pc.index(bad, True).as_py()
        value = column[first].as_py() if first < len(column) else None
        shown = "" if value is None else f" {value!r}"
        raise ColumnError(f"cannot write a row whose {name}{shown} {what}", hint=hint, column=name, value=value)


def _text(column: Any, name: str) -> Any:
    """As large_string, checked that it can be in a properties string."""
    try:
        text = pc.cast(column, pa.large_string())
    except pa.ArrowInvalid:
        raise ColumnError(
            f"cannot write a row whose {name} is not UTF-8: it becomes a property, which is text",
            hint="write it in hexadecimal or base64, or put it into the body",
            column=name,
        ) from None
    _require(text, name, "holds a separator byte (0x01 or 0x02)", pc.match_substring_regex(text, "[\x01\x02]"))
    return text


def _properties(columns: dict[str, Any], rows: int) -> Any:
    """The properties strings, as large_string: name 0x01 value 0x02, repeated."""
    parts = []
    if "tags" in columns:
        tags = _text(columns["tags"], "tags")
        _findable(tags, "tags")
        parts.append(_property("TAGS", tags))
    keys = _keys(columns)
    if keys is not None:
        parts.append(_property("KEYS", keys))
    dropped = [*_NOT_OURS, *(["TAGS"] if "tags" in columns else []), *(["KEYS"] if keys is not None else [])]
    named = [_pairs(columns["properties"], dropped)] if "properties" in columns else []
    if "headers" in columns:
        named.append(_headers(columns["headers"], dropped))
    if named:
        parts.append(pc.coalesce(*named, _word("")))
    return _joined(pa.repeat(_word(""), rows), *parts)


def _word(text: str) -> Any:
    return pa.scalar(text, pa.large_string())


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, _word(""))


def _property(name: str, values: Any) -> Any:
    there = pc.fill_null(pc.greater(pc.binary_length(values), 0), False)
    return pc.if_else(there, _joined(_word(f"{name}\1"), values, _word("\2")), _word(""))


def _keys(columns: dict[str, Any]) -> Any:
    """Each row's keys with one space between them: those of `keys`, else of `key`."""
    found = []
    if "keys" in columns:
        items = columns["keys"].flatten()
        _require(items, "keys", "is null", items.is_null())
        text = _text(items, "keys")
        _require(text, "keys", "is empty or holds a space, which separates keys", pc.match_substring_regex(text, "^$| "))
        joined = pc.binary_join(_lists(columns["keys"], text), _word(" "))
        found.append(pc.if_else(columns["keys"].is_null(), pa.scalar(None, pa.large_string()), joined))
    if "key" in columns:
        found.append(carried.keys_of(_bytes(columns["key"])))
    return pc.coalesce(*found) if found else None


def _findable(tags: Any, name: str) -> None:
    """Raises: ColumnError: a tag that no filter could ask for."""
    hint = "give each message one tag; what it is to be found by besides are keys"
    _require(tags, name, "holds '||', which separates the tags of a filter", pc.match_substring(tags, "||"), hint)
    bad = pc.or_(pc.equal(tags, "*"), pc.match_substring_regex(tags, r"^[\x00-\x20]|[\x00-\x20]$"))
    _require(tags, name, "is '*' or has blanks around it, which a filter takes away", bad)


def _headers(column: Any, dropped: list[str]) -> Any:
    """The pairs of each row's headers, as one string; null if the row has none."""
    if carried.needs_care(column):
        return carried.properties_of(column, [name.encode() for name in ("TAGS", "KEYS") if name not in dropped])
    pairs = column.flatten()
    names, values = (pc.cast(_bytes(pc.struct_field(pairs, place)), pa.large_string()) for place in (0, 1))
    return _strings(column, names, values, None)


def _pairs(column: Any, dropped: list[str]) -> Any:
    """Each row's pairs of a map, as one string; null if the row has none."""
    names, values = _text(column.keys, "properties"), _text(column.items, "properties")
    dropped = [*dropped, *_notes(names, "properties")]
    mine = pc.invert(pc.is_in(names, value_set=pa.array(dropped, pa.large_string())))
    for what, texts in (("a name", names), ("a value", values)):
        bad = pc.or_(texts.is_null(), pc.fill_null(pc.equal(pc.binary_length(texts), 0), False))
        bad = pc.and_(bad, pc.fill_null(mine, True))
        _require(names, "properties", f"has {what} that is null or empty, which no property can be", bad)
    _findable(values.filter(pc.and_(mine, pc.equal(names, "TAGS"))), "properties TAGS")
    return _strings(column, names, values, mine)


def _strings(column: Any, names: Any, values: Any, mine: Any) -> Any:
    pairs = _joined(names, _word("\1"), values, _word("\2"))
    if mine is not None:
        pairs = pc.if_else(mine, pairs, _word(""))
    joined = pc.binary_join(_lists(column, pairs), _word(""))
    return pc.if_else(column.is_null(), pa.scalar(None, pa.large_string()), joined)


def _notes(names: Any, kind: str) -> list[str]:
    """The names under which brokers note something about a message that was read. They ask for nothing, and are left out.
    Raises: ColumnError: a name that asks a RocketMQ broker for something that OrbitMQ does not do."""
    reserved = {name: reserved_property(name) for name in pc.unique(names).to_pylist() if name}
    for name, meaning in reserved.items():
        if meaning in (WISH, REPLY):
            raise ColumnError(
                f"cannot write a row with the property {name!r}: {why_reserved(meaning)}",
                hint="leave it out: includeHeaders of the source reads the sender's own properties only, into 'headers'",
                column=kind,
                value=name,
            )
    return [name for name, meaning in reserved.items() if meaning == NOTE]


def _lists(like: Any, items: Any) -> Any:
    """Lists of `items`, as long as those of `like`; null ones are empty."""
    lengths = pc.fill_null(pc.list_value_length(like), 0) if not pa.types.is_map(like.type) else None
    if lengths is None:
        return pa.ListArray.from_arrays(like.offsets, items)
    ends = pc.cumulative_sum(pc.cast(lengths, pa.int32()))
    return pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int32()), ends]), items)
