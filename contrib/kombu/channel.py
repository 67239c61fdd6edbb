"""A channel of kombu's: exchanges and bindings as its virtual channels have them, in this process; queues in the broker."""

from __future__ import annotations

import re
from queue import Empty
from typing import TYPE_CHECKING, Any

from kombu.exceptions import ChannelError
from kombu.transport import virtual

from orbitmq.contrib.kombu.envelope import Payload
from orbitmq.contrib.kombu.link import INDEXED_S
from orbitmq.contrib.kombu.names import exchange_topic, topic_of

if TYPE_CHECKING:
    from orbitmq.contrib.kombu.source import Arrival, Source
    from orbitmq.contrib.kombu.transport import Transport

CLASS_BASIC, METHOD_PUBLISH = 60, 40


class QoS(virtual.QoS):
    """What was delivered and not settled, by delivery tag."""

    channel: Channel

    def ack(self, delivery_tag: str) -> None:
        self._settle(delivery_tag, "ack")

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._settle(delivery_tag, "requeue" if requeue else "ack")

    def restore_unacked(self) -> list[Any]:
        self._flush()
        for tag in list(self._delivered):
            self._settle(tag, "give_back")
        self._delivered.clear()
        return []

    def _settle(self, tag: str, how: str) -> None:
        """Any thread may call it. Of a channel that was closed meanwhile the message comes again anyway."""
        connection = self.channel.connection
        if connection is not None:
            getattr(connection.hands, how)(tag)
        super().ack(tag)
        if connection is not None:
            connection.settled()


class Channel(virtual.Channel):
    QoS = QoS
    body_encoding = None  # bodies are stored as they are
    supports_fanout = True
    connection: Transport

    def __init__(self, connection: Transport, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._unacknowledged: set[str] = set()  # queues whose messages count as done when they are delivered

    # ---- queues

    def _new_queue(self, queue: str, auto_delete: bool = False, exclusive: bool = False, **kwargs: Any) -> None:
        if auto_delete or exclusive:
            self.connection.open_temporary(queue)
        elif queue not in self.connection.temporary:
            self.connection.link.make(topic_of(queue))
            self.connection.lasting.add(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return queue in self.connection.temporary or self.connection.link.has(topic_of(queue))

    def _size(self, queue: str) -> int:
        temporary = self.connection.temporary.get(queue)
        return temporary.size if temporary is not None else self.connection.link.free(topic_of(queue), INDEXED_S)

    def _purge(self, queue: str) -> int:
        temporary = self.connection.temporary.get(queue)
        if temporary is not None:
            return temporary.purge()
        if not self.connection.link.has(topic_of(queue)):
            return 0
        return self.connection.link.cancel_delayed(topic_of(queue)) + self.connection.work_source(queue).purge()

    def queue_bind(self, queue: str, exchange: str | None = None, routing_key: str = "", *args: Any, **kwargs: Any) -> None:
        exchange = exchange or "amq.direct"
        super().queue_bind(queue, exchange, routing_key, *args, **kwargs)
        temporary = self.connection.temporary.get(queue)
        if temporary is not None:
            kind = self.typeof(exchange)
            key, pattern, _ = kind.prepare_bind(queue, exchange, routing_key, None)
            temporary.bind(exchange, ".*" if kind.type == "fanout" else pattern or re.escape(key or ""))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        """queue_bind does it."""

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any) -> None:
        if if_empty and self._size(queue):
            return
        self._unbind_all(queue)
        self.connection.lasting.discard(queue)
        if self.connection.close_source(queue):
            return
        self.connection.link.delete(topic_of(queue))

    def after_reply_message_received(self, queue: str) -> None:
        if queue in self.connection.temporary:
            self.queue_delete(queue)

    # ---- publishing

    def basic_publish(self, message: Payload, exchange: str, routing_key: str, **kwargs: Any) -> None:
        """Returns when the broker has stored it, for each queue that is bound here, and once for all queues that live no longer
        than their connections. Raises: ChannelError: nobody has declared the exchange; or no queue gets
        the message, which is mandatory."""
        self._inplace_augment_message(message, exchange, routing_key)
        connection = self.connection
        reached = False
        for queue in self._lookup(exchange, routing_key):
            if queue not in connection.temporary and (exchange or queue in connection.lasting or self._has_queue(queue)):
                self._put(queue, message)
                reached = True
        if (reached and not exchange) or connection.broadcast(exchange_topic(exchange), message) or reached:
            return
        if exchange and exchange not in self.state.exchanges:
            text = f"NOT_FOUND - could not publish to the exchange {exchange!r}: nobody has declared it"
            raise ChannelError(text, (CLASS_BASIC, METHOD_PUBLISH), "Channel.basic_publish", "404")
        if kwargs.get("mandatory"):
            text = f"NO_ROUTE - could not publish to {exchange or 'the default exchange'!r}: no queue gets {routing_key!r}"
            raise ChannelError(text, (CLASS_BASIC, METHOD_PUBLISH), "Channel.basic_publish", "312")

    def _put(self, queue: str, message: Payload, **kwargs: Any) -> None:
        topic = topic_of(queue)
        self.connection.link.make(topic)  # somebody may have deleted it since this process has declared it
        self.connection.link.send(topic, message)

    # ---- consuming

    def basic_consume(self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any) -> None:
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        (self._unacknowledged.add if no_ack else self._unacknowledged.discard)(queue)
        self.connection.consumed[queue] = self

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None and queue not in self._active_queues and self.connection.consumed.get(queue) is self:
            del self.connection.consumed[queue]
            self.connection.rest(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        found = self.connection.source(queue).get() if self._has_queue(queue) else None
        if found is None:
            return None
        message = self.Message(self._begun(self.connection.source(queue), found, no_ack), channel=self)
        if not no_ack:
            self.qos.append(message, message.delivery_tag)
        return message

    def delivered(self, source: Source, arrival: Arrival) -> None:
        """Gives it to its consumer."""
        queue = source.queue
        self.connection.deliver(self._begun(source, arrival, queue in self._unacknowledged), queue)

    def close(self) -> None:
        connection, closed = self.connection, self.closed
        super().close()
        if not closed and connection is not None:
            connection.forget(self)

    # ---- behind them

    def _get(self, queue: str, timeout: float | None = None) -> Payload:
        raise Empty  # Transport.drain_events asks sources

    def _begun(self, source: Source, arrival: Arrival, no_ack: bool) -> Payload:
        """The payload with its delivery tag."""
        hands = self.connection.hands
        tag = hands.add(source, arrival.hand_out)  # type: ignore[arg-type]  # each kind is a Giver
        arrival.payload["properties"]["delivery_tag"] = tag
        if no_ack:
            hands.ack(tag)
        return arrival.payload

    def _unbind_all(self, queue: str) -> None:
        for meta in self.state.exchanges.values():
            meta["table"] = [binding for binding in meta["table"] if binding[2] != queue]
        self.state.queue_bindings_delete(queue)
