import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.constant.PermName;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's own name server and broker, with their default settings.
 *
 * <p>STORE NAMES_PORT PORT HA_PORT TOPIC...: until standard input ends. Prints a line when they are ready.
 */
public final class Server {
    private static final int QUEUES = 8;

    private Server() {}

    public static void main(String[] arguments) {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION)); // as RocketMQ's own start does
        int code = 0;
        try {
            serve(arguments);
        } catch (Exception error) {
            System.err.println(error);
            code = 1;
        }
        System.exit(code); // RocketMQ leaves threads behind
    }

    private static void serve(String[] arguments) throws Exception {
        int namesPort = Integer.parseInt(arguments[1]);
        NettyServerConfig namesServer = new NettyServerConfig();
        namesServer.setListenPort(namesPort);
        NamesrvController names = new NamesrvController(new NamesrvConfig(), namesServer);
        require(names.initialize(), "the name server does not start");
        names.start();
        MessageStoreConfig files = new MessageStoreConfig();
        files.setStorePathRootDir(arguments[0]);
        files.setStorePathCommitLog(arguments[0] + "/commitlog");
        files.setHaListenPort(Integer.parseInt(arguments[3]));
        files.setCleanFileForciblyEnable(false);
        BrokerConfig config = new BrokerConfig();
        config.setBrokerIP1("127.0.0.1");
        config.setNamesrvAddr("127.0.0.1:" + namesPort);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(Integer.parseInt(arguments[2]));
        BrokerController broker = new BrokerController(config, server, new NettyClientConfig(), files);
        require(broker.initialize(), "the broker does not start");
        broker.start();
        for (int each = 4; each < arguments.length; each++) {
            TopicConfig topic = new TopicConfig(arguments[each], QUEUES, QUEUES, PermName.PERM_READ | PermName.PERM_WRITE);
            broker.getTopicConfigManager().updateTopicConfig(topic);
        }
        broker.registerBrokerAll(true, false, true);
        System.out.println("ready");
        while (System.in.read() >= 0) {
            continue;
        }
    }

    private static void require(boolean held, String what) {
        if (!held) {
            throw new IllegalStateException(what);
        }
    }
}
