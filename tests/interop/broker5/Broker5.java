import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.auth.config.AuthConfig;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * A broker of RocketMQ 5 without a name server, told to start by a JSON object on a line of standard input. It answers when it serves:
 * {"ok": true}, or {"error": text, "trace": text}. It ends when standard input does.
 */
public final class Broker5 {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JSONObject answer = new JSONObject();
            try {
                start(JSON.parseObject(line));
                answer.put("ok", true);
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer.put("error", String.valueOf(error));
                answer.put("trace", trace.toString());
            }
            answers.println(JSON.toJSONString(answer));
        }
        Runtime.getRuntime().halt(0); // its store is of no use to anybody any more
    }

    private static void start(JSONObject order) throws Exception {
        String store = order.getString("store");
        int port = order.getIntValue("port");
        MessageStoreConfig files = new MessageStoreConfig();
        files.setStorePathRootDir(store);
        files.setStorePathCommitLog(store + "/commitlog");
        files.setMappedFileSizeCommitLog(8 << 20);
        files.setMappedFileSizeConsumeQueue(20 * 1000);
        files.setMappedFileSizeTimerLog(1 << 20);
        files.setMaxHashSlotNum(1000);
        files.setMaxIndexNum(4000);
        files.setHaListenPort(port + 1);
        files.setCleanFileForciblyEnable(false); // however full the disk of this machine is
        files.setOsPageCacheBusyTimeOutMills(Integer.MAX_VALUE); // it refuses nothing because this machine is busy
        files.setTimerPrecisionMs(100); // what comes again comes sooner than with 1000
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName("broker"); // as the receipts of tests/actors/pop_client.py say
        config.setBrokerIP1("127.0.0.1");
        config.setBrokerFastFailureEnable(false); // nor because something has waited for 0.2 s
        config.setListenPort(port);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(port);
        BrokerController broker = new BrokerController(config, server, new NettyClientConfig(), files, new AuthConfig());
        if (!broker.initialize()) {
            throw new IllegalStateException("the broker's initialize failed: its log says why");
        }
        broker.start();
    }
}
