import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * RocketMQ's own client, which visits whatever broker answers at an address.
 *
 * <p>NAMES: does one job for each line of standard input, and prints a line of JSON for it: [requests or messages, seconds, ns of this process's
 * processor time, p50 and p99 in us]. The time of a job does not contain what comes before it and after it.
 *
 * <p>sync THREADS MS: each thread sends one message after the other. async WINDOW MS: at most so many at once. batch SIZE MS: one batch after the
 * other; a batch is a request. paced RATE MS: sync sends at times that are due. fill MESSAGES: into the backlog. drain MESSAGES: by a push consumer
 * of a new group, from the first message to the last. live WINDOW MS: async sends and a push consumer; messages received. delay RATE MS: paced
 * sends and a push consumer; from when a message was due until it is received. commit THREADS MS: transactions, each committed at once, until all
 * messages are in their topic.
 */
public final class Visitor {
    private static final String SENT = "sent";
    private static final String BACKLOG = "backlog";
    private static final String LIVE = "live";
    private static final String COMMITTED = "committed";
    private static final int QUEUES = 8;
    private static final int BODY = 100;
    private static final int FILLED_AT_ONCE = 500;
    private static final int KEPT_MAX = 1 << 20;
    private static final long PATIENCE_NS = 120_000_000_000L;

    private final String names;
    private final DefaultMQProducer producer;
    private final TransactionMQProducer transactions;
    private final long[] took = new long[KEPT_MAX];
    private final AtomicInteger kept = new AtomicInteger();
    private final AtomicReference<Throwable> failed = new AtomicReference<>();
    private int groups;

    private Visitor(String names) throws Exception {
        this.names = names;
        producer = new DefaultMQProducer("benchmark");
        producer.setNamesrvAddr(names);
        producer.start();
        transactions = new TransactionMQProducer("transactions");
        transactions.setNamesrvAddr(names);
        transactions.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        transactions.start();
    }

    public static void main(String[] arguments) {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION)); // as RocketMQ's own start does
        int code = 0;
        try {
            Visitor visitor = new Visitor(arguments[0]);
            BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
            for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
                String[] words = line.split(" ");
                System.out.println(visitor.does(words[0], Integer.parseInt(words[1]), words.length > 2 ? Integer.parseInt(words[2]) : 0));
            }
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        System.exit(code); // RocketMQ leaves threads behind
    }

    private String does(String job, int size, int ms) throws Exception {
        kept.set(0);
        switch (job) {
            case "sync":
                return sync(size, ms);
            case "async":
                return async(size, ms);
            case "batch":
                return batch(size, ms);
            case "paced":
                return paced(size, ms);
            case "commit":
                return commit(size, ms);
            case "fill":
                return fill(size);
            case "drain":
                return drain(size);
            case "live":
                return live(size, ms);
            case "delay":
                return delay(size, ms);
            default:
                throw new IllegalArgumentException("no job " + job);
        }
    }

    private interface Send {
        SendResult one() throws Exception;
    }

    private String sync(int threads, int ms) throws Exception {
        Spent spent = new Spent();
        return spent.all(together(threads, spent.begin + ms * 1_000_000L, () -> producer.send(new Message(SENT, "paid", new byte[BODY]))));
    }

    private String commit(int threads, int ms) throws Exception {
        long before = committed();
        Spent spent = new Spent();
        long end = spent.begin + ms * 1_000_000L;
        long sent = together(threads, end, () -> transactions.sendMessageInTransaction(new Message(COMMITTED, "paid", new byte[BODY]), null));
        while (committed() < before + sent) { // an end of a transaction is sent one-way
            require(System.nanoTime() < end + PATIENCE_NS, "not all were committed");
            LockSupport.parkNanos(5_000_000);
        }
        return spent.all(sent);
    }

    @SuppressWarnings("deprecation") // no other call of a producer asks for bounds
    private long committed() throws Exception {
        long found = 0;
        for (MessageQueue queue : transactions.fetchPublishMessageQueues(COMMITTED)) {
            found += transactions.maxOffset(queue);
        }
        return found;
    }

    /** Each thread sends one after the other until the end. */
    private long together(int threads, long end, Send send) throws Exception {
        AtomicLong sent = new AtomicLong();
        List<Thread> all = new ArrayList<>();
        for (int each = 0; each < threads; each++) {
            Thread thread = new Thread(() -> {
                long count = 0;
                try {
                    for (long now = System.nanoTime(); now < end; count++) {
                        stored(send.one());
                        long then = System.nanoTime();
                        keep(then - now);
                        now = then;
                    }
                } catch (Exception error) {
                    failed.set(error);
                }
                sent.addAndGet(count);
            });
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
        return sent.get();
    }

    private String async(int window, int ms) throws Exception {
        Semaphore room = new Semaphore(window);
        Spent spent = new Spent();
        long sent = stream(SENT, 0, window, room, spent.begin + ms * 1_000_000L);
        await(() -> room.availablePermits() == window);
        return spent.all(sent);
    }

    /** Sends messages, which begin with a mark and the time, until the end. */
    private long stream(String topic, long mark, int window, Semaphore room, long end) throws Exception {
        long sent = 0;
        for (; System.nanoTime() < end; sent++) {
            room.acquire();
            long begin = System.nanoTime();
            producer.send(new Message(topic, "paid", body(mark, begin)), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    if (result.getSendStatus() != SendStatus.SEND_OK) {
                        failed.set(new IllegalStateException("not stored: " + result));
                    }
                    if (topic.equals(SENT)) {
                        keep(System.nanoTime() - begin);
                    }
                    room.release();
                }

                @Override
                public void onException(Throwable error) {
                    failed.set(error);
                    room.release();
                }
            });
        }
        return sent;
    }

    private String batch(int size, int ms) throws Exception {
        Spent spent = new Spent();
        long end = spent.begin + ms * 1_000_000L;
        long sent = 0;
        for (long now = System.nanoTime(); now < end; sent++) {
            stored(producer.send(messages(SENT, size)));
            long then = System.nanoTime();
            keep(then - now);
            now = then;
        }
        return spent.all(sent);
    }

    private String paced(int rate, int ms) throws Exception {
        Spent spent = new Spent();
        long sent = pace(SENT, 0, rate, ms, (begin, end) -> keep(end - begin));
        return spent.all(sent);
    }

    private interface Timed {
        void was(long begin, long end);
    }

    /** One send after the other at times that are due. A send that could not begin then, because the one before took longer, counts from then. */
    private long pace(String topic, long mark, int rate, int ms, Timed timed) throws Exception {
        long sent = 0;
        long first = System.nanoTime();
        for (long count = (long) rate * ms / 1000; sent < count; sent++) {
            long due = first + sent * 1_000_000_000L / rate;
            long begin = due;
            while (System.nanoTime() < due) {
                LockSupport.parkNanos(due - System.nanoTime());
                begin = System.nanoTime();
            }
            stored(producer.send(new Message(topic, "paid", body(mark, begin))));
            timed.was(begin, System.nanoTime());
        }
        return sent;
    }

    private String fill(int messages) throws Exception {
        Spent spent = new Spent();
        for (int sent = 0; sent < messages; sent += FILLED_AT_ONCE) {
            stored(producer.send(messages(BACKLOG, Math.min(FILLED_AT_ONCE, messages - sent))));
        }
        return spent.all(messages);
    }

    private String drain(int messages) throws Exception {
        AtomicLong found = new AtomicLong();
        AtomicReference<Spent> spent = new AtomicReference<>();
        DefaultMQPushConsumer consumer = consumer("drain-" + ++groups, BACKLOG, (all, context) -> {
            if (spent.get() == null) {
                spent.compareAndSet(null, new Spent());
            }
            found.addAndGet(all.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> found.get() >= messages);
        String all = spent.get().all(found.get());
        consumer.shutdown();
        return all;
    }

    private String live(int window, int ms) throws Exception {
        long mark = ++groups;
        AtomicLong found = new AtomicLong();
        DefaultMQPushConsumer consumer = listening(mark, begin -> found.incrementAndGet());
        Semaphore room = new Semaphore(window);
        Spent spent = new Spent();
        long sent = stream(LIVE, mark, window, room, spent.begin + ms * 1_000_000L);
        await(() -> found.get() >= sent);
        String all = spent.all(sent);
        consumer.shutdown();
        return all;
    }

    private String delay(int rate, int ms) throws Exception {
        long mark = ++groups;
        AtomicLong found = new AtomicLong();
        DefaultMQPushConsumer consumer = listening(mark, begin -> {
            keep(System.nanoTime() - begin);
            found.incrementAndGet();
        });
        Spent spent = new Spent();
        long sent = pace(LIVE, mark, rate, ms, (begin, end) -> {});
        await(() -> found.get() >= sent);
        String all = spent.all(sent);
        consumer.shutdown();
        return all;
    }

    private interface Heard {
        void at(long begin);
    }

    /** A push consumer that has all queues, and hears the messages with a mark. */
    private DefaultMQPushConsumer listening(long mark, Heard heard) throws Exception {
        Set<Integer> queues = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = consumer(LIVE, LIVE, (all, context) -> {
            for (MessageExt message : all) {
                ByteBuffer body = ByteBuffer.wrap(message.getBody());
                long marked = body.getLong();
                if (marked == mark) {
                    heard.at(body.getLong());
                } else if (marked == -mark) {
                    queues.add(message.getQueueId());
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        for (MessageQueue queue : producer.fetchPublishMessageQueues(LIVE)) {
            stored(producer.send(new Message(LIVE, "paid", body(-mark, 0)), queue));
        }
        await(() -> queues.size() == QUEUES);
        return consumer;
    }

    private DefaultMQPushConsumer consumer(String group, String topic, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private static List<Message> messages(String topic, int count) {
        List<Message> messages = new ArrayList<>(count);
        for (int each = 0; each < count; each++) {
            messages.add(new Message(topic, "paid", new byte[BODY]));
        }
        return messages;
    }

    private static byte[] body(long mark, long now) {
        return ByteBuffer.allocate(BODY).putLong(mark).putLong(now).array();
    }

    private void keep(long ns) {
        int place = kept.getAndIncrement();
        if (place < KEPT_MAX) {
            took[place] = ns;
        }
    }

    private interface Condition {
        boolean holds();
    }

    private void await(Condition condition) {
        long end = System.nanoTime() + PATIENCE_NS;
        while (!condition.holds()) {
            notFailed();
            require(System.nanoTime() < end, "nothing more came");
            LockSupport.parkNanos(100_000);
        }
    }

    private void notFailed() {
        if (failed.get() != null) {
            throw new IllegalStateException("a send failed", failed.get());
        }
    }

    private static void stored(SendResult result) {
        require(result.getSendStatus() == SendStatus.SEND_OK, "not stored: " + result);
    }

    private static void require(boolean held, String what) {
        if (!held) {
            throw new IllegalStateException(what);
        }
    }

    private static long ran() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** What a job spends, from its beginning on. */
    private final class Spent {
        private final long ran = ran();
        private final long begin = System.nanoTime();

        String all(long count) {
            double seconds = (System.nanoTime() - begin) / 1e9;
            long spent = ran() - ran;
            notFailed();
            int many = Math.min(kept.get(), KEPT_MAX);
            Arrays.sort(took, 0, many);
            double p50 = many == 0 ? 0 : took[many / 2] / 1e3;
            double p99 = many == 0 ? 0 : took[Math.min(many - 1, many * 99 / 100)] / 1e3;
            return "[" + count + ", " + seconds + ", " + spent + ", " + p50 + ", " + p99 + "]";
        }
    }
}
