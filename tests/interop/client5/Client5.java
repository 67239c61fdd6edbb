import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.NotificationRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.NotificationResponseHeader;
import org.apache.rocketmq.remoting.protocol.header.PollingInfoRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PollingInfoResponseHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * RocketMQ 5's Java client for the remoting protocol, told what to do a line at a time: a JSON object on standard input, with the
 * operation's name in "do", and one in answer on standard output: {"ok": ...}, or {"error": text, "trace": text}.
 */
@SuppressWarnings("deprecation") // nothing else leads to the calls of pop
public final class Client5 {
    private static final long PATIENCE_MS = 180_000; // a watchdog: what has not come by then never will
    private static final int PATIENT_MS = 60_000; // for one answer; RocketMQ's own 3 to 6 s are too few for a busy machine

    private final Map<String, DefaultMQPushConsumer> members = new TreeMap<>();
    private final Map<String, BlockingQueue<MessageExt>> arrivals = new TreeMap<>();
    private String names;
    private TransactionMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        Client5 client = new Client5();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JSONObject answer = new JSONObject();
            try {
                answer.put("ok", client.obey(JSON.parseObject(line)));
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer.put("error", String.valueOf(error));
                answer.put("trace", trace.toString());
            }
            answers.println(JSON.toJSONString(answer));
        }
        System.exit(0); // threads of the client would keep the process
    }

    private Object obey(JSONObject order) throws Exception {
        switch (order.getString("do")) {
            case "visit":
                return visit(order.getString("names"));
            case "leave":
                return leave();
            case "send":
                return send(order);
            case "transact":
                return transact(order);
            case "poll":
                return poll(order);
            case "popBy":
                return popBy(order);
            case "join":
                return join(order);
            case "came":
                return came(order.getString("member"));
            case "quit":
                return quit(order.getString("member"));
            case "pop":
                return pop(order);
            case "ack":
                return ack(order);
            case "ackAll":
                return ackAll(order);
            case "change":
                return change(order);
            case "notified":
                return notified(order);
            case "polls":
                return polls(order);
            default:
                throw new IllegalArgumentException(order.toString());
        }
    }

    private Object visit(String address) throws Exception {
        names = address;
        producer = new TransactionMQProducer("client5");
        producer.setNamesrvAddr(address);
        producer.setInstanceName("client5 " + System.nanoTime()); // each visit is another client
        producer.setTransactionListener(new Ends());
        producer.setSendMsgTimeout(PATIENT_MS);
        producer.setMqClientApiTimeout(PATIENT_MS);
        producer.start();
        // Questions for a topic's queues have 6 s, and no setting changes that.
        producer.getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl().setTimeoutMillis(PATIENT_MS);
        return true;
    }

    private Object leave() {
        for (String member : new ArrayList<>(members.keySet())) {
            quit(member);
        }
        if (producer != null) {
            producer.shutdown();
        }
        producer = null;
        return true;
    }

    /** The body says how the transaction ends. */
    private static final class Ends implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            return body.startsWith("no") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }
    }

    /** One by one, or as one batch; to come after some time. */
    private Object send(JSONObject order) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (Object body : order.getJSONArray("bodies")) {
            Message message = new Message(order.getString("topic"), order.getString("tags"), String.valueOf(body).getBytes(StandardCharsets.UTF_8));
            if (order.getLongValue("delayMs") > 0) {
                message.setDelayTimeMs(order.getLongValue("delayMs"));
            }
            messages.add(message);
        }
        if (order.getBooleanValue("batch")) {
            return List.of(producer.send(messages).getSendStatus() == SendStatus.SEND_OK);
        }
        List<Boolean> sent = new ArrayList<>();
        for (Message message : messages) {
            sent.add(producer.send(message).getSendStatus() == SendStatus.SEND_OK);
        }
        return sent;
    }

    private Object transact(JSONObject order) throws Exception {
        List<String> ended = new ArrayList<>();
        for (Object body : order.getJSONArray("bodies")) {
            Message message = new Message(order.getString("topic"), String.valueOf(body).getBytes(StandardCharsets.UTF_8));
            ended.add(String.valueOf(producer.sendMessageInTransaction(message, null).getLocalTransactionState()));
        }
        return ended;
    }

    /** Messages of a topic, by a lite pull consumer: as many as are asked for. */
    private Object poll(JSONObject order) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(order.getString("group"));
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("poll " + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(order.getString("topic"), "*");
        consumer.setMqClientApiTimeout(PATIENT_MS);
        consumer.start();
        try {
            List<String> found = new ArrayList<>();
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (found.size() < order.getIntValue("count") && System.currentTimeMillis() < end) {
                for (MessageExt message : consumer.poll(100)) {
                    found.add(body(message));
                }
            }
            consumer.commit();
            return found;
        } finally {
            consumer.shutdown();
        }
    }

    private MQClientAPIImpl api() {
        return producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
    }

    /** As an administrator: the group's consumers get messages of the topic by pop. */
    private Object popBy(JSONObject order) throws Exception {
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(order.getString("group"));
        api().createSubscriptionGroup(names, group, PATIENCE_MS);
        api().setMessageRequestMode(names, order.getString("topic"), order.getString("group"), MessageRequestMode.POP, 0, PATIENCE_MS);
        return true;
    }

    /** A push consumer. brokerShares: the broker says which queues it gets, and by which request. failing: a body that fails once. */
    private Object join(JSONObject order) throws Exception {
        String member = order.getString("member");
        String failing = order.getString("failing");
        BlockingQueue<MessageExt> came = new LinkedBlockingQueue<>();
        Map<String, Boolean> failed = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(order.getString("group"));
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(member + " " + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(!order.getBooleanValue("brokerShares"));
        consumer.subscribe(order.getString("topic"), order.getString("tags"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            came.addAll(messages);
            for (MessageExt message : messages) {
                if (body(message).equals(failing) && failed.putIfAbsent(failing, true) == null) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.setMqClientApiTimeout(PATIENT_MS);
        consumer.start();
        arrivals.put(member, came);
        members.put(member, consumer);
        return true;
    }

    private Object came(String member) {
        List<MessageExt> found = new ArrayList<>();
        arrivals.get(member).drainTo(found);
        return shown(found);
    }

    private Object quit(String member) {
        members.remove(member).shutdown();
        arrivals.remove(member);
        return true;
    }

    // ---- pop, by the client's own calls

    private Object pop(JSONObject order) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(order.getString("group"));
        header.setTopic(order.getString("topic"));
        header.setQueueId(-1);
        header.setMaxMsgNums(order.getIntValue("most"));
        header.setInvisibleTime(order.getLongValue("invisibleMs"));
        header.setPollTime(order.getLongValue("pollMs"));
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(order.getBooleanValue("inOrder"));
        header.setAttemptId(order.getString("attempt"));
        CompletableFuture<PopResult> result = new CompletableFuture<>();
        api().popMessageAsync(broker(order), names, header, PATIENCE_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult popped) {
                result.complete(popped);
            }

            @Override
            public void onException(Throwable error) {
                result.completeExceptionally(error);
            }
        });
        PopResult popped = result.get(2 * PATIENCE_MS, TimeUnit.MILLISECONDS);
        JSONObject told = new JSONObject();
        told.put("status", String.valueOf(popped.getPopStatus()));
        told.put("messages", popped.getMsgFoundList() == null ? new JSONArray() : shown(popped.getMsgFoundList()));
        return told;
    }

    private Object ack(JSONObject order) throws Exception {
        String[] receipt = ExtraInfoUtil.split(order.getString("receipt"));
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(order.getString("group"));
        header.setTopic(ExtraInfoUtil.getRealTopic(receipt, order.getString("topic"), order.getString("group")));
        header.setQueueId(ExtraInfoUtil.getQueueId(receipt));
        header.setOffset(ExtraInfoUtil.getQueueOffset(receipt));
        header.setExtraInfo(order.getString("receipt"));
        Settled settled = new Settled();
        api().ackMessageAsync(names, PATIENCE_MS, settled, header);
        return settled.status();
    }

    private Object ackAll(JSONObject order) throws Exception {
        Settled settled = new Settled();
        List<String> receipts = order.getJSONArray("receipts").toJavaList(String.class);
        api().batchAckMessageAsync(names, PATIENCE_MS, settled, order.getString("topic"), order.getString("group"), receipts);
        return settled.status();
    }

    /** Returns the status and the new receipt. */
    private Object change(JSONObject order) throws Exception {
        String[] receipt = ExtraInfoUtil.split(order.getString("receipt"));
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(order.getString("group"));
        header.setTopic(ExtraInfoUtil.getRealTopic(receipt, order.getString("topic"), order.getString("group")));
        header.setQueueId(ExtraInfoUtil.getQueueId(receipt));
        header.setOffset(ExtraInfoUtil.getQueueOffset(receipt));
        header.setExtraInfo(order.getString("receipt"));
        header.setInvisibleTime(order.getLongValue("invisibleMs"));
        Settled settled = new Settled();
        api().changeInvisibleTimeAsync(broker(order), names, header, PATIENCE_MS, settled);
        return List.of(settled.status(), String.valueOf(settled.result.get().getExtraInfo()));
    }

    /** Whether there is a message to pop. */
    private Object notified(JSONObject order) throws Exception {
        NotificationRequestHeader header = new NotificationRequestHeader();
        header.setConsumerGroup(order.getString("group"));
        header.setTopic(order.getString("topic"));
        header.setQueueId(-1);
        header.setPollTime(order.getLongValue("pollMs"));
        header.setBornTime(System.currentTimeMillis());
        header.setOrder(order.getBooleanValue("inOrder"));
        RemotingCommand told = asked(RequestCode.NOTIFICATION, header);
        return told.decodeCommandCustomHeader(NotificationResponseHeader.class).isHasMsg();
    }

    /** How many pops wait that have named no queue. */
    private Object polls(JSONObject order) throws Exception {
        PollingInfoRequestHeader header = new PollingInfoRequestHeader();
        header.setConsumerGroup(order.getString("group"));
        header.setTopic(order.getString("topic"));
        header.setQueueId(-1);
        RemotingCommand told = asked(RequestCode.POLLING_INFO, header);
        return told.decodeCommandCustomHeader(PollingInfoResponseHeader.class).getPollingNum();
    }

    private RemotingCommand asked(int code, CommandCustomHeader header) throws Exception {
        RemotingCommand told = api().getRemotingClient().invokeSync(names, RemotingCommand.createRequestCommand(code, header), PATIENCE_MS);
        if (told.getCode() != ResponseCode.SUCCESS) {
            throw new IllegalStateException(told.toString());
        }
        return told;
    }

    private static final class Settled implements AckCallback {
        final CompletableFuture<AckResult> result = new CompletableFuture<>();

        @Override
        public void onSuccess(AckResult told) {
            result.complete(told);
        }

        @Override
        public void onException(Throwable error) {
            result.completeExceptionally(error);
        }

        String status() throws Exception {
            return String.valueOf(result.get(2 * PATIENCE_MS, TimeUnit.MILLISECONDS).getStatus());
        }
    }

    /** The broker's name, as the route of the topic says. */
    private String broker(JSONObject order) throws Exception {
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(order.getString("topic"));
        return queues.get(0).getBrokerName();
    }

    private static Object shown(List<MessageExt> messages) {
        JSONArray shown = new JSONArray();
        for (MessageExt message : messages) {
            JSONObject one = new JSONObject();
            one.put("body", body(message));
            one.put("topic", message.getTopic());
            one.put("queue", message.getQueueId());
            one.put("offset", message.getQueueOffset());
            one.put("reconsumed", message.getReconsumeTimes());
            one.put("receipt", message.getProperty(MessageConst.PROPERTY_POP_CK));
            shown.add(one);
        }
        return shown;
    }

    private static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
