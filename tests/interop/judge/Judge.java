import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.common.protocol.ResponseCode;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * A RocketMQ name server, broker and client in one process, told what to do a line at a time: a JSON object on standard input, with
 * the operation's name in "do", and one in answer on standard output: {"ok": ...}, or {"error": text, "trace": text}.
 *
 * <p>The broker is the real one, on real files and ports; every look at its messages goes through the real client. Its
 * pull consumer is deprecated, and still the only one that pulls from where it is told.
 */
@SuppressWarnings("deprecation")
public final class Judge {
    private static final String BROKER = "judged";
    static final int PATIENT_MS = 60_000; // for one answer; RocketMQ's own 3 to 10 s are too few for a busy machine
    private static final long PATIENCE_S = 180; // a watchdog: what has not come by then never will
    private static final long PAUSE_MS = 100;
    private static final long NO_ANSWER = -2; // as an offset, by RocketMQ's client

    private NamesrvController names;
    private String namesAddress;
    private String visited;
    private final Map<String, DefaultMQPushConsumer> members = new TreeMap<>();
    private final Map<String, LinkedBlockingQueue<MessageExt>> arrivals = new TreeMap<>();
    private final Map<String, DefaultMQProducer> repliers = new TreeMap<>();
    private BrokerController broker;
    private String brokerAddress;
    private DefaultMQProducer producer;
    private DefaultMQPullConsumer consumer;
    private DefaultMQAdminExt admin;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        Judge judge = new Judge();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JSONObject answer = new JSONObject();
            try {
                answer.put("ok", judge.obey(JSON.parseObject(line)));
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer.put("error", String.valueOf(error));
                answer.put("trace", trace.toString());
            }
            answers.println(JSON.toJSONString(answer, SerializerFeature.DisableCircularReferenceDetect, SerializerFeature.WriteNonStringKeyAsString));
        }
        System.exit(0); // the controllers' threads would keep the process
    }

    private Object obey(JSONObject order) throws Exception {
        String topic = order.getString("topic");
        switch (order.getString("do")) {
            case "start":
                return start(order);
            case "stop":
                return stop();
            case "visit":
                return visit(order.getString("names"), order.getBooleanValue("vip"));
            case "leave":
                return leave();
            case "mqadmin":
                return mqadmin(order.getJSONArray("words"), order.getBooleanValue("again"));
            case "poll":
                return poll(topic, order.getIntValue("count"));
            case "create":
                return create(topic, order.getIntValue("queues"));
            case "topics":
                return topics();
            case "createGroup":
                return createGroup(order.getString("group"));
            case "bounds":
                return bounds(topic);
            case "pull":
                return pull(topic, order.getString("tags"));
            case "filter":
                return filter(topic, order.getJSONArray("filters"));
            case "search":
                return search(topic, order.getIntValue("queue"), order.getJSONArray("times"));
            case "find":
                return find(topic, order.getJSONArray("keys"));
            case "view":
                return view(topic, order.getJSONArray("ids"));
            case "sendAnywhere":
                return sendAnywhere(topic, order.getJSONArray("letters"));
            case "send":
                return send(topic, order.getJSONArray("batches"));
            case "transact":
                return transact(topic, order.getJSONArray("letters"), order.getString("group"), order.getString("end"));
            case "check":
                return check(topic, order.getString("group"), order.getJSONObject("ends"));
            case "consume":
                return consume(topic, order.getString("group"), order.getIntValue("count"), order.getJSONObject("failing"), order.getInteger("most"));
            case "join":
                return join(order.getString("member"), topic, order.getString("group"), order.getString("tags"), order.getString("sql"), order.getBooleanValue("broadcast"), order.getBooleanValue("ordered"), order.getBooleanValue("failing"), order.getInteger("most"));
            case "request":
                return request(topic, order.getJSONArray("bodies"), order.getLongValue("timeout"));
            case "reply":
                return reply(order.getString("member"), topic, order.getString("group"));
            case "came":
                return came(order.getString("member"));
            case "quit":
                return quit(order.getString("member"));
            case "encode":
                return Encoder.encode(order);
            case "askSigned":
                return Signed.ask(order);
            case "sendSigned":
                return Signed.send(order, names());
            case "consumeSigned":
                return Signed.consume(order, names());
            case "committed":
                return committed(topic, order.getString("group"));
            default:
                throw new IllegalArgumentException("no such operation: " + order);
        }
    }

    // ---- the broker's life

    private Object start(JSONObject order) throws Exception {
        if (names == null) {
            NettyServerConfig server = new NettyServerConfig();
            server.setListenPort(order.getIntValue("namesPort"));
            names = new NamesrvController(new NamesrvConfig(), server);
            require(names.initialize(), "the name server's initialize");
            names.start();
            namesAddress = "127.0.0.1:" + server.getListenPort();
        }
        String store = order.getString("store");
        MessageStoreConfig files = new MessageStoreConfig();
        files.setStorePathRootDir(store);
        files.setStorePathCommitLog(store + "/commitlog");
        files.setMappedFileSizeCommitLog(order.getIntValue("logFileSize"));
        files.setMappedFileSizeConsumeQueue(order.getIntValue("queueFileSize"));
        files.setMaxHashSlotNum(order.getIntValue("indexSlots"));
        files.setMaxIndexNum(order.getIntValue("indexEntries"));
        files.setMaxMessageSize(order.getIntValue("messageMax"));
        files.setHaListenPort(order.getIntValue("haPort"));
        files.setMessageIndexSafe(order.getBooleanValue("messageIndexSafe"));
        files.setCleanFileForciblyEnable(false); // however full the disk of this machine is
        files.setOsPageCacheBusyTimeOutMills(Integer.MAX_VALUE); // it refuses nothing because this machine is busy
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(BROKER);
        config.setBrokerIP1("127.0.0.1");
        config.setBrokerFastFailureEnable(false); // nor because something has waited for 0.2 s
        config.setNamesrvAddr(namesAddress);
        // As in production: what the store does not name does not exist.
        config.setAutoCreateTopicEnable(false);
        config.setAutoCreateSubscriptionGroup(false);
        config.setEnablePropertyFilter(true);
        config.setAclEnable(order.getString("key") != null);
        // Halves of an earlier life are asked about at once, and then every second.
        config.setTransactionTimeOut(order.getIntValue("transactionTimeOut"));
        config.setTransactionCheckInterval(1000);
        config.setTransactionCheckMax(1_000_000); // on a slow machine nobody may be there to answer for a while
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(order.getIntValue("port"));
        BrokerController made = new BrokerController(config, server, new NettyClientConfig(), files);
        try {
            require(made.initialize(), "the broker's initialize: its log says why; it refuses a store with this");
            made.start();
        } catch (Throwable error) {
            try {
                made.shutdown();
            } catch (Throwable other) {
                error.addSuppressed(other); // why it did not start is the news
            }
            throw error;
        }
        broker = made;
        brokerAddress = broker.getBrokerAddr();
        connect(namesAddress, false);
        admin = new DefaultMQAdminExt(Signed.hook(order), PATIENT_MS);
        if (config.isAclEnable()) {
            admin.setInstanceName(Signed.name());
        }
        admin.setNamesrvAddr(namesAddress);
        admin.setMqClientApiTimeout(PATIENT_MS);
        admin.start();
        bePatient(admin);
        createGroup(consumer.getConsumerGroup());
        return brokerAddress;
    }

    private void connect(String names, boolean vip) throws Exception {
        producer = new DefaultMQProducer("judge-producer");
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(PATIENT_MS);
        producer.setMqClientApiTimeout(PATIENT_MS);
        producer.setVipChannelEnabled(vip);
        producer.start();
        consumer = new DefaultMQPullConsumer("judge-consumer");
        consumer.setNamesrvAddr(names);
        consumer.setMqClientApiTimeout(PATIENT_MS);
        consumer.setConsumerPullTimeoutMillis(PATIENT_MS);
        consumer.setVipChannelEnabled(vip);
        consumer.start();
        bePatient(consumer);
    }

    /** Questions for routes, for offsets and for messages by their ids have 6 s, and no setting changes that. The client has
     *  been started: before, there is nothing that has the limit. */
    private static void bePatient(ClientConfig client) {
        MQClientManager.getInstance().getOrCreateMQClientInstance(client).getMQAdminImpl().setTimeoutMillis(PATIENT_MS);
    }

    /** Its start asks for routes, and fails for want of an answer. What it could not give back it sends to its group's retries,
     *  by a producer of its own: whoever does not wait for the answer sends it twice. */
    static void startMember(DefaultMQPushConsumer member) throws MQClientException {
        member.setMqClientApiTimeout(PATIENT_MS);
        member.start();
        member.getDefaultMQPushConsumerImpl().getmQClientFactory().getDefaultMQProducer().setSendMsgTimeout(PATIENT_MS);
    }

    /** A client of a broker that runs elsewhere, found by this name server's address. vip: it uses the VIP channel. */
    private Object visit(String names, boolean vip) throws Exception {
        visited = names;
        connect(names, vip);
        return null;
    }

    private Object leave() {
        consumer.shutdown();
        producer.shutdown();
        visited = null;
        return null;
    }

    /** What the admin tool prints for this command line, its errors included. again: the last command line, once more. */
    private Object mqadmin(JSONArray words, boolean again) throws Exception {
        if (again) {
            Tool.forget();
        }
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream error = System.err;
        try (PrintStream all = new PrintStream(said, true, "UTF-8")) {
            System.setOut(all);
            System.setErr(all);
            MQAdminStartup.main0(words.toArray(new String[0]), null);
        } finally {
            System.setOut(out);
            System.setErr(error);
            System.clearProperty("rocketmq.namesrv.addr"); // the tool sets it
        }
        return said.toString("UTF-8");
    }

    /** Some commands keep a client that they have shut down, which does not start again. */
    private static final class Tool extends MQAdminStartup {
        static void forget() {
            subCommandList.clear(); // the tool fills it at each call
        }
    }

    /** Where clients look for the broker. */
    private String names() {
        return visited == null ? namesAddress : visited;
    }

    /** So many messages of the topic, of all queues from their min offset on, by the client that polls. Each is told once: while the client seeks,
     *  a pull may be on its way, and then it hands out a batch twice, with RocketMQ's broker as well. */
    private Object poll(String topic, int count) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        DefaultLitePullConsumer lite = new DefaultLitePullConsumer("judge-lite");
        lite.setNamesrvAddr(visited);
        lite.setAutoCommit(false);
        lite.setMqClientApiTimeout(PATIENT_MS);
        lite.start();
        bePatient(lite);
        try {
            Collection<MessageQueue> queues = lite.fetchMessageQueues(topic);
            lite.assign(queues);
            for (MessageQueue queue : queues) {
                lite.seekToBegin(queue);
            }
            for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S); found.size() < count && System.nanoTime() < end; ) {
                lite.poll(1000).forEach(message -> found.put(message.getQueueId() + " " + message.getQueueOffset(), shown(message)));
            }
        } finally {
            lite.shutdown();
        }
        return new ArrayList<>(found.values());
    }

    private Object stop() throws InterruptedException {
        BrokerController stopped = broker;
        broker = null;
        Thread stopping = new Thread(() -> {
            admin.shutdown();
            consumer.shutdown();
            producer.shutdown();
            stopped.shutdown();
        });
        stopping.start();
        // Each of the broker's two servers would wait up to 3 s for an event thread that looks up only when it is interrupted.
        for (stopping.join(50); stopping.isAlive(); stopping.join(50)) {
            Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().startsWith("NettyEventExecutor")).forEach(Thread::interrupt);
        }
        return null;
    }

    private static void require(boolean held, String what) {
        if (!held) {
            throw new IllegalStateException("failed: " + what);
        }
    }

    // ---- topics and queues

    private Object create(String topic, int queues) throws Exception {
        admin.createAndUpdateTopicConfig(brokerAddress, new TopicConfig(topic, queues, queues, 6));
        return null;
    }

    private Object createGroup(String group) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        admin.createAndUpdateSubscriptionGroupConfig(brokerAddress, config);
        return null;
    }

    /** Name to number of queues, RocketMQ's own topics included. */
    private Object topics() throws Exception {
        Map<String, Integer> found = new TreeMap<>();
        for (String name : admin.fetchAllTopicList().getTopicList()) {
            found.put(name, admin.examineTopicRouteInfo(name).getQueueDatas().get(0).getReadQueueNums());
        }
        return found;
    }

    private List<MessageQueue> queues(String topic) throws MQClientException {
        return new ArrayList<>(new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic)));
    }

    /** By queue [min offset, max offset]. */
    private Object bounds(String topic) throws Exception {
        Map<Integer, List<Long>> found = new TreeMap<>();
        for (MessageQueue queue : queues(topic)) {
            found.put(queue.getQueueId(), List.of(consumer.minOffset(queue), consumer.maxOffset(queue)));
        }
        return found;
    }

    // ---- reading

    /** Every message of the topic, queue by queue from its min offset, going on where the broker says, as a push consumer does. */
    private Object pull(String topic, String tags) throws Exception {
        List<Object> found = new ArrayList<>();
        for (MessageQueue queue : queues(topic)) {
            long end = consumer.maxOffset(queue);
            for (long offset = consumer.minOffset(queue); offset < end; ) {
                PullResult result = consumer.pull(queue, tags == null ? "*" : tags, offset, 32);
                require(result.getPullStatus() != PullStatus.OFFSET_ILLEGAL && result.getNextBeginOffset() > offset, "to pull " + queue + " at " + offset + ": " + result);
                if (result.getMsgFoundList() != null) {
                    result.getMsgFoundList().forEach(message -> found.add(shown(message)));
                }
                offset = result.getNextBeginOffset();
            }
        }
        return found;
    }

    /** For each SQL92 filter the offsets in queue 0 of the messages that pass it; null: the broker refuses it. */
    private Object filter(String topic, JSONArray filters) throws Exception {
        List<Object> found = new ArrayList<>();
        MessageQueue queue = queues(topic).get(0);
        long end = consumer.maxOffset(queue);
        // The broker answers a heartbeat with its version, and the client sends no filter to one that may be old.
        MQClientInstance client = consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
        client.updateTopicRouteInfoFromNameServer(topic);
        client.sendHeartbeatToAllBrokerWithLock();
        long last = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        // A heartbeat has 3 s, and does not tell that it came to nothing.
        while (client.findBrokerVersion(BROKER, brokerAddress) == 0 && System.nanoTime() < last) {
            Thread.sleep(PAUSE_MS);
            client.sendHeartbeatToAllBrokerWithLock();
        }
        for (Object text : filters) {
            List<Long> passed = new ArrayList<>();
            try {
                for (long offset = consumer.minOffset(queue); offset < end; ) {
                    PullResult result = consumer.pull(queue, MessageSelector.bySql((String) text), offset, 1000);
                    require(result.getPullStatus() != PullStatus.OFFSET_ILLEGAL && result.getNextBeginOffset() > offset, "to pull at " + offset + ": " + result);
                    if (result.getMsgFoundList() != null) {
                        result.getMsgFoundList().forEach(message -> passed.add(message.getQueueOffset()));
                    }
                    offset = result.getNextBeginOffset();
                }
                found.add(passed);
            } catch (MQBrokerException error) {
                require(error.getResponseCode() == ResponseCode.SUBSCRIPTION_PARSE_FAILED, text + ": " + error);
                found.add(null);
            }
        }
        return found;
    }

    private Object search(String topic, int queue, JSONArray times) throws Exception {
        List<Long> found = new ArrayList<>();
        for (int i = 0; i < times.size(); i++) {
            found.add(consumer.searchOffset(new MessageQueue(topic, BROKER, queue), times.getLongValue(i)));
        }
        return found;
    }

    /** By key the messages that have it. */
    private Object find(String topic, JSONArray keys) throws Exception {
        List<Object> found = new ArrayList<>();
        for (Object key : keys) {
            List<Object> messages = new ArrayList<>();
            try {
                admin.queryMessage(topic, (String) key, 64, 0, Long.MAX_VALUE).getMessageList().forEach(message -> messages.add(shown(message)));
            } catch (MQClientException error) {
                require(String.valueOf(error.getErrorMessage()).contains("no message"), "to find " + key + ": " + error);
            }
            found.add(messages);
        }
        return found;
    }

    private Object view(String topic, JSONArray ids) throws Exception {
        List<Object> found = new ArrayList<>();
        for (Object id : ids) {
            found.add(shown(admin.viewMessage(topic, (String) id)));
        }
        return found;
    }

    private static Object shown(MessageExt message) {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        // The client's own, added to what it pulls.
        properties.remove(MessageConst.PROPERTY_MIN_OFFSET);
        properties.remove(MessageConst.PROPERTY_MAX_OFFSET);
        properties.remove(MessageConst.PROPERTY_CONSUME_START_TIMESTAMP);
        JSONObject shown = new JSONObject(true);
        shown.put("topic", message.getTopic());
        shown.put("queue", message.getQueueId());
        shown.put("offset", message.getQueueOffset());
        shown.put("physical_offset", message.getCommitLogOffset());
        shown.put("size", message.getStoreSize());
        shown.put("body", Base64.getEncoder().encodeToString(message.getBody() == null ? new byte[0] : message.getBody()));
        shown.put("tags", message.getTags());
        shown.put("keys", message.getKeys());
        shown.put("properties", properties);
        shown.put("flag", message.getFlag());
        shown.put("sys_flag", message.getSysFlag());
        shown.put("born_ms", message.getBornTimestamp());
        shown.put("stored_ms", message.getStoreTimestamp());
        shown.put("born_address", address(message.getBornHost()));
        shown.put("store_address", address(message.getStoreHost()));
        shown.put("reconsumed", message.getReconsumeTimes());
        shown.put("id", message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : message.getMsgId());
        return shown;
    }

    /** Without the port. */
    private static String address(SocketAddress host) {
        return ((InetSocketAddress) host).getAddress().getHostAddress();
    }

    // ---- writing

    /** Each batch in one call: [{"queue":, "body":, "tags":, "keys":, "properties":, "flag":}]; one message alone is no batch. */
    private Object send(String topic, JSONArray batches) throws Exception {
        List<Object> receipts = new ArrayList<>();
        for (int i = 0; i < batches.size(); i++) {
            JSONArray batch = batches.getJSONArray(i);
            List<Message> messages = new ArrayList<>();
            for (int k = 0; k < batch.size(); k++) {
                messages.add(message(topic, batch.getJSONObject(k)));
            }
            MessageQueue queue = new MessageQueue(topic, BROKER, batch.getJSONObject(0).getIntValue("queue"));
            SendResult result = messages.size() == 1 ? producer.send(messages.get(0), queue) : producer.send(messages, queue);
            require(result.getSendStatus() == SendStatus.SEND_OK, "to send: " + result);
            String[] ids = result.getOffsetMsgId().split(",");
            for (int k = 0; k < ids.length; k++) {
                receipts.add(List.of(queue.getQueueId(), result.getQueueOffset() + k, ids[k]));
            }
        }
        return receipts;
    }

    /** Each in one call, to the queue that the client chooses; the topic may not exist yet. */
    private Object sendAnywhere(String topic, JSONArray letters) throws Exception {
        List<Object> receipts = new ArrayList<>();
        for (int i = 0; i < letters.size(); i++) {
            SendResult result = producer.send(message(topic, letters.getJSONObject(i)));
            require(result.getSendStatus() == SendStatus.SEND_OK, "to send: " + result);
            receipts.add(List.of(result.getMessageQueue().getQueueId(), result.getQueueOffset(), result.getOffsetMsgId()));
        }
        return receipts;
    }

    private static Message message(String topic, JSONObject content) {
        Message message = new Message(topic, content.getString("tags"), content.getString("keys"), content.getIntValue("flag"), Base64.getDecoder().decode(content.getString("body")), true);
        JSONObject properties = content.getJSONObject("properties");
        if (properties != null) {
            properties.forEach((name, value) -> message.putUserProperty(name, (String) value));
        }
        if (content.containsKey("delay")) {
            message.setDelayTimeLevel(content.getIntValue("delay"));
        }
        return message;
    }

    /** Each in a transaction of this group, which ends so: "commit", "rollback"; or it does not end: "open". The end of one reaches the broker
     *  one-way, later. */
    private Object transact(String topic, JSONArray letters, String group, String end) throws Exception {
        TransactionMQProducer sender = transactions(group, message -> state("open"), end);
        sender.start();
        bePatient(sender);
        try {
            for (int i = 0; i < letters.size(); i++) {
                SendResult result = sender.sendMessageInTransaction(message(topic, letters.getJSONObject(i)), null);
                require(result.getSendStatus() == SendStatus.SEND_OK, "to send: " + result);
            }
            // An answer comes behind what this connection has sent before: the ends, which a shutdown would drop.
            sender.maxOffset(new MessageQueue(topic, BROKER, 0));
        } finally {
            sender.shutdown();
        }
        return null;
    }

    /** What the broker asks a producer of the group about transactions. ends: by body what the producer answers, one after the other; the end
     *  of it is when all have been asked about so often. Returns the bodies, in the order of the questions. */
    private Object check(String topic, String group, JSONObject ends) throws Exception {
        LinkedBlockingQueue<String> asked = new LinkedBlockingQueue<>();
        Map<String, AtomicInteger> times = new ConcurrentHashMap<>();
        TransactionMQProducer sender = transactions(group, message -> {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            JSONArray answers = ends.getJSONArray(body);
            int before = times.computeIfAbsent(body, key -> new AtomicInteger()).getAndIncrement();
            asked.add(body);
            return state(answers == null ? "open" : answers.getString(Math.min(before, answers.size() - 1)));
        }, "open");
        ExecutorService looking = Executors.newSingleThreadExecutor();
        sender.setExecutorService(looking);
        sender.start();
        List<String> found = new ArrayList<>();
        try {
            MQClientInstance client = sender.getDefaultMQProducerImpl().getmQClientFactory();
            client.updateTopicRouteInfoFromNameServer(topic); // so that it knows the broker, which knows it by its heartbeat
            client.sendHeartbeatToAllBrokerWithLock();
            while (!ends.keySet().stream().allMatch(body -> Collections.frequency(found, body) >= ends.getJSONArray(body).size())) {
                String body = asked.poll(PATIENCE_S, TimeUnit.SECONDS);
                require(body != null, "these checks came: " + found);
                found.add(body);
            }
        } finally {
            looking.shutdown(); // what was answered is sent before the client ends
            looking.awaitTermination(PATIENCE_S, TimeUnit.SECONDS);
            sender.shutdown();
        }
        return found;
    }

    private TransactionMQProducer transactions(String group, Function<MessageExt, LocalTransactionState> check, String end) {
        TransactionMQProducer sender = new TransactionMQProducer(group);
        sender.setNamesrvAddr(names());
        sender.setSendMsgTimeout(PATIENT_MS);
        sender.setMqClientApiTimeout(PATIENT_MS);
        sender.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state(end);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return check.apply(message);
            }
        });
        return sender;
    }

    private static LocalTransactionState state(String end) {
        return "commit".equals(end) ? LocalTransactionState.COMMIT_MESSAGE : "rollback".equals(end) ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
    }

    // ---- groups

    /** The next messages of a group of one push consumer, which begins where the group left off, or at the first message. It fails with
     *  those whose bodies are named, which go back with this level of delay; -1: to the dead letters. most: retries; null: the default. */
    private Object consume(String topic, String group, int count, JSONObject failing, Integer most) throws Exception {
        LinkedBlockingQueue<MessageExt> came = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        member.setNamesrvAddr(names());
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.subscribe(topic, "*");
        if (most != null) {
            member.setMaxReconsumeTimes(most);
        }
        /* What the listener has got counts as consumed a moment later, and the offsets are kept at the shutdown. */
        member.setAwaitTerminationMillisWhenShutdown(PATIENCE_S * 1000L);
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            came.addAll(messages);
            Integer level = failing == null ? null : failing.getInteger(new String(messages.get(0).getBody(), StandardCharsets.UTF_8));
            if (level == null) {
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
            context.setDelayLevelWhenNextConsume(level);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        startMember(member);
        List<Object> found = new ArrayList<>();
        try {
            while (found.size() < count) {
                MessageExt message = came.poll(PATIENCE_S, TimeUnit.SECONDS);
                require(message != null, found.size() + " of " + count + " messages came");
                found.add(shown(message));
            }
        } finally {
            member.shutdown();
        }
        return found;
    }

    /** A push consumer of the group, until it quits. failing: with everything; an ordered one tries it again at once, `most` times. */
    private Object join(String name, String topic, String group, String tags, String sql, boolean broadcast, boolean ordered, boolean failing, Integer most) throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        LinkedBlockingQueue<MessageExt> came = new LinkedBlockingQueue<>();
        member.setNamesrvAddr(names());
        member.setInstanceName(name);
        member.setMessageModel(broadcast ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.setPollNameServerInterval(1000);
        member.setPersistConsumerOffsetInterval(200);
        member.setHeartbeatBrokerInterval(1000);
        if (most != null) {
            member.setMaxReconsumeTimes(most);
        }
        if (sql == null) {
            member.subscribe(topic, tags);
        } else {
            member.subscribe(topic, MessageSelector.bySql(sql));
        }
        member.setAwaitTerminationMillisWhenShutdown(PATIENCE_S * 1000L);
        if (ordered) {
            member.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                came.addAll(messages);
                context.setSuspendCurrentQueueTimeMillis(10); // the least
                return failing ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                came.addAll(messages);
                context.setDelayLevelWhenNextConsume(-1); // to the dead letters
                return failing ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        startMember(member);
        members.put(name, member);
        arrivals.put(name, came);
        return null;
    }

    /** The bodies of the replies to requests with these bodies, one after the other, and how each reply says that it is one. */
    private Object request(String topic, JSONArray bodies, long timeout) throws Exception {
        List<Object> found = new ArrayList<>();
        for (int each = 0; each < bodies.size(); each++) {
            byte[] body = bodies.getString(each).getBytes(StandardCharsets.UTF_8);
            Message reply = producer.request(new Message(topic, body), timeout);
            JSONObject shown = new JSONObject();
            shown.put("body", new String(reply.getBody(), StandardCharsets.UTF_8));
            shown.put("type", reply.getProperty(MessageConst.PROPERTY_MESSAGE_TYPE));
            found.add(shown);
        }
        return found;
    }

    /** A push consumer that replies to each request: "java: " and its body. A large one makes a reply that is compressed. */
    private Object reply(String name, String topic, String group) throws Exception {
        DefaultMQProducer replier = new DefaultMQProducer(group + "-replies");
        replier.setNamesrvAddr(names());
        replier.setSendMsgTimeout(PATIENT_MS);
        replier.setMqClientApiTimeout(PATIENT_MS);
        replier.setInstanceName(name + "-replies");
        replier.start();
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        LinkedBlockingQueue<MessageExt> came = new LinkedBlockingQueue<>();
        member.setNamesrvAddr(names());
        member.setInstanceName(name);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.setHeartbeatBrokerInterval(1000);
        member.subscribe(topic, "*");
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    String body = "java: " + new String(message.getBody(), StandardCharsets.UTF_8);
                    Message reply = MessageUtil.createReplyMessage(message, body.getBytes(StandardCharsets.UTF_8));
                    SendResult result = replier.send(reply, PATIENCE_S * 1000L);
                    if (result.getSendStatus() == SendStatus.SEND_OK) {
                        came.add(message);
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        startMember(member);
        members.put(name, member);
        arrivals.put(name, came);
        repliers.put(name, replier);
        return null;
    }

    /** What has come to a member since the last question. */
    private Object came(String name) {
        List<MessageExt> messages = new ArrayList<>();
        arrivals.get(name).drainTo(messages);
        List<Object> found = new ArrayList<>();
        messages.forEach(message -> found.add(shown(message)));
        return found;
    }

    private Object quit(String name) {
        members.remove(name).shutdown();
        DefaultMQProducer replier = repliers.remove(name);
        if (replier != null) {
            replier.shutdown();
        }
        return came(name);
    }

    /** For each queue, the offset at which the group continues; queues without one are missing. */
    private Object committed(String topic, String group) throws Exception {
        DefaultMQPullConsumer member = new DefaultMQPullConsumer(group);
        member.setNamesrvAddr(names());
        member.setMqClientApiTimeout(PATIENT_MS);
        member.start();
        Map<Integer, Long> found = new TreeMap<>();
        try {
            for (MessageQueue queue : queues(topic)) {
                long offset = offset(member, queue);
                if (offset >= 0) {
                    found.put(queue.getQueueId(), offset);
                }
            }
        } finally {
            member.shutdown();
        }
        return found;
    }

    /** Negative: the group has none there. The question has 5 s, and is asked again if nobody has answered. */
    private static long offset(DefaultMQPullConsumer member, MessageQueue queue) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        long found = member.fetchConsumeOffset(queue, true);
        for (; found == NO_ANSWER; found = member.fetchConsumeOffset(queue, true)) {
            require(System.nanoTime() < end, "to ask for the offset in " + queue);
            Thread.sleep(PAUSE_MS);
        }
        return found;
    }
}
