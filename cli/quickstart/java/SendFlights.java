import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * NAMES TOPIC: sends a message for each line of standard input, which has an airline, a tail number or nothing, and the body, between tabs. Prints "ready", then from time to time
 * "sent" and how many more have been stored.
 *
 * <p>A thread for each queue sends one message after the other, so the flights of an aircraft, which go to one queue, keep their order.
 */
public final class SendFlights {
    private static final int REPORT = 1000;
    private static final int WAITING = 1000; // for each thread
    private static final long LOOK_UP_MS = 60_000; // until the topic must have been found
    private static final long PAUSE_MS = 100;
    private static final Message END = new Message();

    private SendFlights() {
    }

    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0); // RocketMQ leaves threads behind
        } catch (Throwable error) {
            fail(error);
        }
    }

    private static void run(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("airlines");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(60_000); // a second try could store a flight twice
        producer.setMqClientApiTimeout(60_000); // the first flights ask where their topic is, and fail without an answer
        producer.start();
        List<BlockingQueue<Message>> waiting = new ArrayList<>();
        List<Thread> senders = new ArrayList<>();
        for (MessageQueue queue : queues(producer, arguments[1])) {
            BlockingQueue<Message> mine = new ArrayBlockingQueue<>(WAITING);
            Thread sender = new Thread(() -> send(producer, queue, mine));
            sender.start();
            waiting.add(mine);
            senders.add(sender);
        }
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] flight = line.split("\t", 3);
            String aircraft = flight[1].isEmpty() ? flight[0] : flight[1];
            Message message = new Message(arguments[1], flight[0], flight[1], flight[2].getBytes(StandardCharsets.UTF_8));
            waiting.get(Math.floorMod(aircraft.hashCode(), waiting.size())).put(message);
        }
        for (BlockingQueue<Message> each : waiting) {
            each.put(END);
        }
        for (Thread sender : senders) {
            sender.join();
        }
        producer.shutdown();
    }

    /** The client gives up after a few seconds, which a busy machine needs to load its classes. */
    private static List<MessageQueue> queues(DefaultMQProducer producer, String topic) throws Exception {
        for (long end = System.currentTimeMillis() + LOOK_UP_MS; ; ) {
            try {
                return producer.fetchPublishMessageQueues(topic);
            } catch (MQClientException error) {
                if (System.currentTimeMillis() > end) {
                    throw error;
                }
                Thread.sleep(PAUSE_MS);
            }
        }
    }

    private static void fail(Throwable error) {
        error.printStackTrace();
        System.exit(1);
    }

    private static void send(DefaultMQProducer producer, MessageQueue queue, BlockingQueue<Message> mine) {
        AtomicInteger sent = new AtomicInteger();
        try {
            for (Message message = mine.take(); message != END; message = mine.take()) {
                SendResult result = producer.send(message, queue);
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    throw new IllegalStateException("not stored: " + result);
                }
                if (sent.incrementAndGet() == REPORT) {
                    System.out.println("sent " + sent.getAndSet(0));
                }
            }
            System.out.println("sent " + sent.get());
        } catch (Throwable error) {
            fail(error);
        }
    }
}
