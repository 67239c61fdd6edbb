import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * NAMES TOPIC GROUP CONSUMERS COUNT: adds up the delays of so many flights as they come to the consumers of a group, by airline: how many, how many arrived, and the sum of their delays.
 * Prints "ready", then from time to time "seen" and how many more have come, and at the end "done" and the sums as JSON.
 *
 * <p>When a queue goes from one consumer to another, RocketMQ may deliver a message to both: so a flight counts once, by its place.
 */
public final class CountFlights {
    private static final int REPORT = 1000;
    private static final long END_MS = 30_000; // how long what was received may take at the end
    private static final int ANSWER_MS = 60_000; // a busy machine needs more than the client's 3 s to load its classes

    private static final Map<String, long[]> SUMS = new TreeMap<>();
    private static final Map<Integer, BitSet> SEEN = new TreeMap<>();
    private static long count;
    private static long told;

    private CountFlights() {
    }

    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0); // RocketMQ leaves threads behind
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[3]); number++) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
            consumer.setNamesrvAddr(arguments[0]);
            consumer.setInstanceName("counts-" + number);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setAwaitTerminationMillisWhenShutdown(END_MS);
            consumer.setMqClientApiTimeout(ANSWER_MS);
            consumer.subscribe(arguments[1], "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(CountFlights::add);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        System.out.println("ready");
        synchronized (SUMS) {
            while (count < Long.parseLong(arguments[4])) {
                SUMS.wait();
            }
        }
        consumers.forEach(DefaultMQPushConsumer::shutdown); // they commit how far they are
        System.out.println("done " + JSON.toJSONString(SUMS));
    }

    private static void add(MessageExt message) {
        try {
            count(message);
        } catch (Throwable error) { // RocketMQ would only deliver the message again
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void count(MessageExt message) {
        JSONObject flight = JSON.parseObject(new String(message.getBody(), StandardCharsets.UTF_8));
        Integer delay = flight.getInteger("arr_delay");
        synchronized (SUMS) {
            BitSet places = SEEN.computeIfAbsent(message.getQueueId(), queue -> new BitSet());
            if (places.get((int) message.getQueueOffset())) {
                return;
            }
            places.set((int) message.getQueueOffset());
            long[] sums = SUMS.computeIfAbsent(flight.getString("carrier"), carrier -> new long[3]);
            sums[0]++;
            if (delay != null) {
                sums[1]++;
                sums[2] += delay;
            }
            if (++count - told == REPORT) {
                System.out.println("seen " + REPORT);
                told = count;
            }
            SUMS.notifyAll();
        }
    }
}
