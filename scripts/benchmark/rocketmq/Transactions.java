import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Transactions of RocketMQ's own client with RocketMQ's own broker (Server). Each thread sends half messages one after the other, and each
 * local transaction says at once that it commits.
 *
 * <p>NAMES_PORT THREADS WARM MESSAGES: prints transactions a second, and ns of this process's processor time for each. They are done when
 * the broker has put all the committed messages into their topic.
 */
@SuppressWarnings("deprecation") // the pull consumer asks for bounds without consuming
public final class Transactions {
    private static final String TOPIC = "orders";
    private static final int BODY = 100;
    private static final long PATIENCE_NS = 120_000_000_000L;

    private Transactions() {}

    public static void main(String[] arguments) {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION)); // as RocketMQ's own start does
        int code = 0;
        try {
            send("127.0.0.1:" + arguments[0], number(arguments[1]), number(arguments[2]), number(arguments[3]));
        } catch (Exception error) {
            System.err.println(error.getCause() == null ? error : error.getCause());
            code = 1;
        }
        System.exit(code); // RocketMQ leaves threads behind
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    private static void send(String names, int threads, int warm, int messages) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("benchmark");
        producer.setNamesrvAddr(names);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("counter");
        consumer.setNamesrvAddr(names);
        consumer.start();
        transact(producer, threads, warm);
        until(consumer, warm);
        long ran = ran();
        long begin = System.nanoTime();
        transact(producer, threads, messages);
        until(consumer, (long) warm + messages);
        double seconds = (System.nanoTime() - begin) / 1e9;
        System.out.println("[" + messages / seconds + ", " + (double) (ran() - ran) / messages + "]");
    }

    private static void transact(TransactionMQProducer producer, int threads, int messages) throws Exception {
        AtomicInteger left = new AtomicInteger(messages);
        AtomicReference<Exception> failed = new AtomicReference<>();
        CountDownLatch done = new CountDownLatch(threads);
        for (int each = 0; each < threads; each++) {
            new Thread(() -> {
                try {
                    while (left.getAndDecrement() > 0) {
                        SendStatus status = producer.sendMessageInTransaction(new Message(TOPIC, "paid", new byte[BODY]), null).getSendStatus();
                        require(status == SendStatus.SEND_OK, "a half message was not stored: " + status);
                    }
                } catch (Exception error) {
                    failed.set(error);
                } finally {
                    done.countDown();
                }
            }).start();
        }
        done.await();
        if (failed.get() != null) {
            throw failed.get();
        }
    }

    /** Waits until so many messages can be read: an end of a transaction is sent one-way. */
    private static void until(DefaultMQPullConsumer consumer, long messages) throws Exception {
        long end = System.nanoTime() + PATIENCE_NS;
        for (long found = 0; found < messages; ) {
            require(System.nanoTime() < end, found + " of " + messages + " messages were committed");
            found = 0;
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(TOPIC)) {
                found += consumer.maxOffset(queue);
            }
        }
    }

    private static long ran() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static void require(boolean held, String what) {
        if (!held) {
            throw new IllegalStateException(what);
        }
    }
}
