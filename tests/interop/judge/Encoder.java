import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Map;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** Frames as RocketMQ's own classes write them. */
final class Encoder {
    private static final String HEADERS = "org.apache.rocketmq.common.protocol.header.";
    private static final String COMMON = "org.apache.rocketmq.common.";

    private Encoder() {
    }

    /** A request, in base64. "header", "bodyClass": names of classes; "form": JSON or ROCKETMQ. */
    static String encode(JSONObject order) throws Exception {
        String name = order.getString("header");
        RemotingCommand command = RemotingCommand.createRequestCommand(order.getIntValue("code"), name.isEmpty() ? null : header(name, order.getJSONObject("fields")));
        command.setOpaque(order.getIntValue("opaque"));
        command.setSerializeTypeCurrentRPC(SerializeType.valueOf(order.getString("form")));
        byte[] body = Base64.getDecoder().decode(order.getString("body"));
        String bodyClass = order.getString("bodyClass");
        if (!bodyClass.isEmpty()) {
            body = RemotingSerializable.encode(JSON.parseObject(body, Class.forName(COMMON + bodyClass)));
        }
        command.setBody(body.length == 0 ? null : body);
        ByteBuffer encoded = command.encode();
        byte[] frame = new byte[encoded.remaining()];
        encoded.get(frame);
        return Base64.getEncoder().encodeToString(frame);
    }

    private static CommandCustomHeader header(String name, Map<String, Object> fields) throws Exception {
        Class<?> kind = Class.forName(HEADERS + name);
        Object made = kind.getDeclaredConstructor().newInstance();
        for (Map.Entry<String, Object> each : fields.entrySet()) {
            Field field = kind.getDeclaredField(each.getKey());
            field.setAccessible(true);
            field.set(made, JSON.parseObject(JSON.toJSONString(each.getValue()), field.getType()));
        }
        return (CommandCustomHeader) made;
    }
}
