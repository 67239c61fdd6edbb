import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.netty.TlsSystemConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** What clients with an access key and a secret are told, by RocketMQ's own signatures. An order's "key" and "secret" are the client's; no key: it signs nothing. "tls": it speaks TLS; "certificate": and shows this one, whose key is beside it. */
final class Signed {
    private static final long PATIENCE_S = 180; // a watchdog
    private static final AtomicInteger CLIENTS = new AtomicInteger();

    private Signed() {
    }

    static RPCHook hook(JSONObject order) {
        String key = order.getString("key");
        return key == null ? null : new AclClientRPCHook(new SessionCredentials(key, order.getString("secret")));
    }

    /** Clients of one name share a connection, and with it the first one's key. */
    static String name() {
        return "signed-" + CLIENTS.incrementAndGet();
    }

    /** One request with these fields, signed by RocketMQ's rules for a broker: the code and remark of its answer. */
    static Object ask(JSONObject order) throws Exception {
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        try {
            List<Object> answers = new ArrayList<>();
            for (Object each : order.getJSONArray("requests")) {
                JSONObject asked = (JSONObject) each;
                RemotingCommand request = RemotingCommand.createRequestCommand(asked.getIntValue("code"), null);
                Map<String, String> fields = new HashMap<>();
                asked.getJSONObject("fields").forEach((name, value) -> fields.put(name, (String) value));
                request.setExtFields(new HashMap<>(fields));
                request.setBody(asked.getString("body").getBytes(StandardCharsets.UTF_8));
                String key = asked.getString("key");
                if (key != null) {
                    request.addExtField("AccessKey", key);
                    byte[] content = AclUtils.combineRequestContent(request, new TreeMap<>(request.getExtFields()));
                    request.addExtField("Signature", AclUtils.calSignature(content, asked.getString("secret")));
                }
                RemotingCommand answer = client.invokeSync(order.getString("address"), request, TimeUnit.SECONDS.toMillis(PATIENCE_S));
                JSONObject shown = new JSONObject();
                shown.put("code", answer.getCode());
                shown.put("remark", answer.getRemark());
                answers.add(shown);
            }
            return answers;
        } finally {
            client.shutdown();
        }
    }

    /** Sends a message by a producer: "SEND_OK", or the code and remark with which the broker refused it. */
    static Object send(JSONObject order, String names) throws Exception {
        String certificate = order.getString("certificate");
        if (certificate != null) { // what -Dtls.test.mode.enable, -Dtls.client.certPath and -Dtls.client.keyPath set
            TlsSystemConfig.tlsTestModeEnable = order.getBooleanValue("testMode");
            TlsSystemConfig.tlsClientCertPath = certificate + ".pem";
            TlsSystemConfig.tlsClientKeyPath = certificate + ".key";
        }
        try {
            return sendAs(order, names);
        } finally {
            TlsSystemConfig.tlsTestModeEnable = true;
            TlsSystemConfig.tlsClientCertPath = null;
            TlsSystemConfig.tlsClientKeyPath = null;
        }
    }

    private static Object sendAs(JSONObject order, String names) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("signed-producer", hook(order));
        producer.setNamesrvAddr(names);
        producer.setInstanceName(name());
        producer.setUseTLS(order.getBooleanValue("tls"));
        producer.setSendMsgTimeout(Judge.PATIENT_MS);
        producer.setMqClientApiTimeout(Judge.PATIENT_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            Message message = new Message(order.getString("topic"), order.getString("body").getBytes(StandardCharsets.UTF_8));
            if (order.getBooleanValue("batch")) {
                return producer.send(Collections.singletonList(message)).getSendStatus().name();
            }
            return producer.send(message).getSendStatus().name();
        } catch (MQBrokerException refused) {
            return refused.getResponseCode() + " " + refused.getErrorMessage();
        } catch (MQClientException refused) {
            if (refused.getCause() instanceof MQBrokerException) {
                MQBrokerException cause = (MQBrokerException) refused.getCause();
                return cause.getResponseCode() + " " + cause.getErrorMessage();
            }
            throw refused;
        } finally {
            producer.shutdown();
        }
    }

    /** The bodies of so many messages that a push consumer gets, each behind the number of its retries. Each is given back once.
     *  If the answer to that is late, the client sends it to the retries once more: so a retry counts once. */
    static Object consume(JSONObject order, String names) throws Exception {
        DefaultMQPushConsumer member =
            new DefaultMQPushConsumer(order.getString("group"), hook(order), new AllocateMessageQueueAveragely());
        LinkedBlockingQueue<String> came = new LinkedBlockingQueue<>();
        member.setNamesrvAddr(names);
        member.setInstanceName(name());
        member.setUseTLS(order.getBooleanValue("tls"));
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.subscribe(order.getString("topic"), "*");
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> came.add(message.getReconsumeTimes() + " " + new String(message.getBody(), StandardCharsets.UTF_8)));
            context.setDelayLevelWhenNextConsume(1);
            return messages.get(0).getReconsumeTimes() == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Judge.startMember(member);
        try {
            List<String> found = new ArrayList<>();
            while (found.size() < order.getIntValue("count")) {
                String body = came.poll(PATIENCE_S, TimeUnit.SECONDS);
                if (body == null) {
                    throw new IllegalStateException("only these came: " + found);
                }
                if (body.startsWith("0 ") || !found.contains(body)) {
                    found.add(body);
                }
            }
            return found;
        } finally {
            member.shutdown();
        }
    }
}
