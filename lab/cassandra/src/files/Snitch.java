import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Switches the dynamic snitch of nodes on or off: Snitch true|false JMX-PORT… */
class Snitch {
    public static void main(String[] args) throws Exception {
        for (int at = 1; at < args.length; at++) {
            String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + args[at] + "/jmxrmi";
            try (var jmx = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
                MBeanServerConnection node = jmx.getMBeanServerConnection();
                node.invoke(
                    new ObjectName("org.apache.cassandra.db:type=StorageService"),
                    "updateSnitch",
                    new Object[] {"RackInferringSnitch", Boolean.valueOf(args[0]), 100, 600000, 1.0},
                    new String[] {"java.lang.String", "java.lang.Boolean", "java.lang.Integer",
                        "java.lang.Integer", "java.lang.Double"});
            }
        }
    }
}
