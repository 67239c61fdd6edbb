import com.alibaba.rocketmq.client.consumer.DefaultMQPushConsumer;
import com.alibaba.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import com.alibaba.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import com.alibaba.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import com.alibaba.rocketmq.client.producer.LocalTransactionState;
import com.alibaba.rocketmq.client.producer.TransactionMQProducer;
import com.alibaba.rocketmq.common.consumer.ConsumeFromWhere;
import com.alibaba.rocketmq.common.message.Message;
import com.alibaba.rocketmq.common.message.MessageExt;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * A program of RocketMQ's oldest client that is still to be had: sends messages and two transactions, then prints what a push
 * consumer gets, one line each, until standard input ends. It gives the first message back once. Arguments: a name server, a topic,
 * a group, bodies.
 */
public final class Oldest {
    private static boolean again = true;

    public static void main(String[] arguments) throws Exception {
        String names = arguments[0], topic = arguments[1], group = arguments[2];
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(240_000);
        producer.setTransactionCheckListener(message -> LocalTransactionState.UNKNOW);
        producer.start();
        for (int i = 3; i < arguments.length; i++) {
            show("sent " + producer.send(message(topic, arguments[i])).getSendStatus());
        }
        for (LocalTransactionState end : new LocalTransactionState[] {LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE}) {
            producer.sendMessageInTransaction(message(topic, end.name()), (message, argument) -> end, null);
        }
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "paid");
        consumer.registerMessageListener(new MessageListenerConcurrently() {
            @Override
            public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
                return came(messages.get(0), context);
            }
        });
        consumer.start();
        while (System.in.read() >= 0) { }
        consumer.shutdown();
        producer.shutdown();
        Runtime.getRuntime().halt(0);
    }

    private static synchronized ConsumeConcurrentlyStatus came(MessageExt message, ConsumeConcurrentlyContext context) {
        show("came " + new String(message.getBody(), StandardCharsets.UTF_8) + " " + message.getKeys() + " " + message.getReconsumeTimes());
        context.setDelayLevelWhenNextConsume(1);
        if (!again) {
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
        again = false;
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    private static Message message(String topic, String body) {
        return new Message(topic, "paid", "key-" + body, body.getBytes(StandardCharsets.UTF_8));
    }

    private static synchronized void show(String line) {
        System.out.println(line);
    }
}
