import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.protocol.header.PullMessageRequestHeader;
import org.apache.rocketmq.common.protocol.header.SendMessageRequestHeaderV2;
import org.apache.rocketmq.common.protocol.header.SendMessageResponseHeader;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** RocketMQ's own codecs, with what codec.c converts. Prints one JSON object: ns of processor time of one conversion, by name. */
public final class Codec {
    private interface Conversion {
        Object convert() throws Exception;
    }

    private static final int WARM = 200_000;
    private static final int ROUNDS = 400_000;
    private static long sink;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put("UNIQ_KEY", "7F0000010A1B18B4AAC27A3F5C1D0000");
        properties.put("KEYS", "order-1234567");
        properties.put("TAGS", "paid");
        properties.put("region", "eu-central");
        properties.put("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        properties.put("attempt", "1");
        String text = MessageDecoder.messageProperties2String(properties);
        byte[] send = frame(310, sendHeader(text));
        byte[] pull = frame(11, pullHeader());
        RemotingCommand answer = RemotingCommand.createResponseCommand(SendMessageResponseHeader.class);
        answer.setSerializeTypeCurrentRPC(SerializeType.ROCKETMQ);

        Map<String, Conversion> conversions = new LinkedHashMap<>();
        conversions.put("properties_read", () -> MessageDecoder.string2messageProperties(text));
        conversions.put("properties_written", () -> MessageDecoder.messageProperties2String(properties));
        conversions.put("send_header", () -> read(send, SendMessageRequestHeaderV2.class, true));
        conversions.put("send_header_reflected", () -> read(send, SendMessageRequestHeaderV2.class, false));
        conversions.put("pull_header", () -> read(pull, PullMessageRequestHeader.class, true));
        conversions.put("answer_written", () -> {
            SendMessageResponseHeader header = (SendMessageResponseHeader) answer.readCustomHeader();
            header.setMsgId("7F00000100002A9F00000000000F4240");
            header.setQueueId(3);
            header.setQueueOffset(1234567L);
            answer.setExtFields(null);
            return answer.encodeHeader(0);
        });
        StringBuilder said = new StringBuilder();
        for (Map.Entry<String, Conversion> each : conversions.entrySet()) {
            measure(each.getValue(), WARM);
            said.append(said.length() == 0 ? "{" : ", ");
            said.append('"').append(each.getKey()).append("\": ").append(measure(each.getValue(), ROUNDS));
        }
        System.out.println(said + "}");
        System.exit(sink == 0 ? 1 : 0);
    }

    private static double measure(Conversion conversion, int rounds) throws Exception {
        long begin = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        for (int i = 0; i < rounds; i++) {
            sink += conversion.convert().hashCode() | 1;
        }
        return (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - begin) / (double) rounds;
    }

    /** As it comes from the net, without its length. */
    private static byte[] frame(int code, CommandCustomHeader header) {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, header);
        command.setBody(new byte[100]);
        ByteBuffer encoded = command.encode();
        byte[] bytes = new byte[encoded.remaining() - 4];
        encoded.position(encoded.position() + 4);
        encoded.get(bytes);
        return bytes;
    }

    private static CommandCustomHeader read(byte[] frame, Class<? extends CommandCustomHeader> kind, boolean fast) throws Exception {
        return RemotingCommand.decode(ByteBuffer.wrap(frame)).decodeCommandCustomHeader(kind, fast);
    }

    private static CommandCustomHeader sendHeader(String properties) {
        SendMessageRequestHeaderV2 header = new SendMessageRequestHeaderV2();
        header.setA("producers");
        header.setB("orders");
        header.setC("TBW102");
        header.setD(4);
        header.setE(3);
        header.setF(0);
        header.setG(1_780_000_000_000L);
        header.setH(0);
        header.setI(properties);
        header.setJ(0);
        header.setK(false);
        header.setL(16);
        header.setM(false);
        return header;
    }

    private static CommandCustomHeader pullHeader() {
        PullMessageRequestHeader header = new PullMessageRequestHeader();
        header.setConsumerGroup("billing");
        header.setTopic("orders");
        header.setQueueId(3);
        header.setQueueOffset(123_456L);
        header.setMaxMsgNums(32);
        header.setSysFlag(3);
        header.setCommitOffset(123_400L);
        header.setSuspendTimeoutMillis(15_000L);
        header.setSubscription("*");
        header.setSubVersion(1_780_000_000_000L);
        header.setExpressionType("TAG");
        return header;
    }
}
