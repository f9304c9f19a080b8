import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** The REST catalog of Iceberg's own tests, on loopback: {@code RestCatalog JDBC_URI WAREHOUSE}. */
public final class RestCatalog {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> properties = Map.of(
                "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
                "jdbc.schema-version", "V1",
                "uri", arguments[0],
                "warehouse", arguments[1]);
        var catalog = CatalogUtil.buildIcebergCatalog("lake", properties, new Configuration());
        var context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        var server = new Server(new InetSocketAddress("127.0.0.1", 0));
        server.setHandler(context);
        server.start();
        System.out.println("listens on port " + ((ServerConnector) server.getConnectors()[0]).getLocalPort());
        server.join();
    }
}
