import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's Admin client and producers behind JSON lines: one command a line on standard input, one answer a line on
 * standard output. One process for a whole test session, because every start of a JVM costs about a second.
 *
 * <p>Arguments: bootstrap.servers and, to run a node of Kafka in the same JVM, the file of its settings.
 *
 * <p>An answer is {"id": that of the command, "ok": result} or {"id", "error": simple class name, "message": text}. It
 * ends when its input does.
 */
public final class Helper {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WAIT_MS = 60_000;

    private final String bootstrap;
    private final Admin admin;
    /** Producers with a transaction left open on purpose, by transactional.id. */
    private final Map<String, KafkaProducer<byte[], byte[]>> open = new HashMap<>();

    private Helper(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // nothing but answers on standard output
        if (arguments.length > 1) {
            new Thread(() -> kafka.Kafka.main(new String[] {arguments[1]}), "node").start();
        }
        Helper helper = new Helper(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("{\"id\":0,\"ok\":\"ready\"}");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer = helper.answer(command);
            answer.set("id", command.get("id"));
            answers.println(JSON.writeValueAsString(answer));
        }
        System.exit(0); // a producer with an open transaction would wait for the broker otherwise
    }

    private ObjectNode answer(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("ok", run(command));
        } catch (Throwable thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    private JsonNode run(JsonNode command) throws Exception {
        switch (command.get("command").asText()) {
            case "create_topic": return createTopic(command);
            case "delete_topic": return deleteTopic(command);
            case "describe_topic": return describeTopic(topic(command));
            case "add_partitions": return addPartitions(command);
            case "alter_topic_config": return alterTopicConfig(command);
            case "move_leader": return moveLeader(command);
            case "elect_leader": return electLeader(partition(command), command.get("unclean").asBoolean());
            case "reassign": return reassign(partition(command), ints(command.get("replicas")));
            case "delete_records": return deleteRecords(command);
            case "offsets": return offsets(command);
            case "produce": return produce(command);
            case "end_transaction": return endTransaction(command);
            case "create_token": return createToken(command);
            case "expire_token": return expireToken(command);
            default: throw new IllegalArgumentException("unknown command " + command.get("command"));
        }
    }

    // ---- topics

    private JsonNode createTopic(JsonNode command) throws Exception {
        NewTopic created;
        if (command.hasNonNull("assignment")) {
            Map<Integer, List<Integer>> assignment = new HashMap<>();
            command.get("assignment").properties().forEach(
                entry -> assignment.put(Integer.parseInt(entry.getKey()), ints(entry.getValue())));
            created = new NewTopic(topic(command), assignment);
        } else {
            created = new NewTopic(
                topic(command),
                Optional.of(command.get("partitions").asInt()),
                Optional.of((short) command.get("replication").asInt()));
        }
        created.configs(strings(command.get("config")));
        admin.createTopics(List.of(created)).all().get();
        int partitions = created.numPartitions() > 0 ? created.numPartitions() : created.replicasAssignments().size();
        // The answer to CreateTopics may come before the brokers know the topic and its leaders.
        return await("leaders of " + topic(command), () -> {
            TopicDescription description = describe(topic(command));
            return description.partitions().size() == partitions
                && description.partitions().stream().allMatch(Helper::hasLeader) ? describeTopic(topic(command)) : null;
        });
    }

    private JsonNode deleteTopic(JsonNode command) throws Exception {
        admin.deleteTopics(List.of(topic(command))).all().get();
        return await("deletion of " + topic(command),
            () -> admin.listTopics().names().get().contains(topic(command)) ? null : JSON.nullNode());
    }

    private JsonNode addPartitions(JsonNode command) throws Exception {
        int total = command.get("total").asInt();
        admin.createPartitions(Map.of(topic(command), NewPartitions.increaseTo(total))).all().get();
        return await("leaders of " + topic(command), () -> {
            TopicDescription description = describe(topic(command));
            return description.partitions().size() == total
                && description.partitions().stream().allMatch(Helper::hasLeader) ? describeTopic(topic(command)) : null;
        });
    }

    private JsonNode alterTopicConfig(JsonNode command) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        strings(command.get("config")).forEach(
            (key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(command));
        Map<ConfigResource, Collection<AlterConfigOp>> all = Map.of(resource, changes);
        admin.incrementalAlterConfigs(all).all().get();
        return JSON.nullNode();
    }

    private JsonNode describeTopic(String topic) throws Exception {
        TopicDescription description = describe(topic);
        ObjectNode result = JSON.createObjectNode().put("topic_id", description.topicId().toString());
        ArrayNode partitions = result.putArray("partitions");
        for (TopicPartitionInfo info : description.partitions()) {
            ObjectNode partition = partitions.addObject();
            partition.put("partition", info.partition()).put("leader", hasLeader(info) ? info.leader().id() : -1);
            info.replicas().forEach(node -> partition.withArray("replicas").add(node.id()));
            info.isr().forEach(node -> partition.withArray("isr").add(node.id()));
        }
        return result;
    }

    private TopicDescription describe(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static boolean hasLeader(TopicPartitionInfo info) {
        return info.leader() != null && info.leader().id() != Node.noNode().id();
    }

    // ---- leaders and replicas

    /** Puts the wanted leader first among the replicas, then asks for the preferred leader. */
    private JsonNode moveLeader(JsonNode command) throws Exception {
        TopicPartition partition = partition(command);
        int leader = command.get("leader").asInt();
        List<Integer> replicas = new ArrayList<>(List.of(leader));
        for (int node : ints(known(partition).get("partitions").get(partition.partition()).get("replicas"))) {
            if (node != leader) {
                replicas.add(node);
            }
        }
        reassign(partition, replicas);
        return electLeader(partition, false);
    }

    private JsonNode electLeader(TopicPartition partition, boolean unclean) throws Exception {
        ElectionType type = unclean ? ElectionType.UNCLEAN : ElectionType.PREFERRED;
        Optional<Throwable> failed = admin.electLeaders(type, Set.of(partition)).partitions().get().get(partition);
        if (failed.isPresent() && !(failed.get() instanceof ElectionNotNeededException)) {
            throw new ExecutionException(failed.get());
        }
        return known(partition);
    }

    /** The topic of a partition. Each question may go to another broker, and that one may not know the topic yet. */
    private JsonNode known(TopicPartition partition) throws Exception {
        return await("the topic of " + partition, () -> describeTopic(partition.topic()));
    }

    private JsonNode reassign(TopicPartition partition, List<Integer> replicas) throws Exception {
        admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(replicas)))).all().get();
        return await("reassignment of " + partition,
            () -> admin.listPartitionReassignments(Set.of(partition)).reassignments().get().isEmpty()
                && nodeIds(describe(partition.topic()).partitions().get(partition.partition()).replicas()).equals(replicas)
                    ? describeTopic(partition.topic()) : null);
    }

    // ---- offsets

    private JsonNode deleteRecords(JsonNode command) throws Exception {
        Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
        command.get("before").properties().forEach(entry -> before.put(
            new TopicPartition(topic(command), Integer.parseInt(entry.getKey())),
            RecordsToDelete.beforeOffset(entry.getValue().asLong())));
        admin.deleteRecords(before).all().get();
        return JSON.nullNode();
    }

    private JsonNode offsets(JsonNode command) throws Exception {
        Map<TopicPartition, OffsetSpec> earliest = new HashMap<>();
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        for (TopicPartitionInfo info : describe(topic(command)).partitions()) {
            TopicPartition partition = new TopicPartition(topic(command), info.partition());
            earliest.put(partition, OffsetSpec.earliest());
            latest.put(partition, OffsetSpec.latest());
        }
        var first = admin.listOffsets(earliest).all().get();
        var last = admin.listOffsets(latest).all().get();
        ObjectNode result = JSON.createObjectNode();
        first.forEach((partition, info) -> result.putArray(Integer.toString(partition.partition()))
            .add(info.offset()).add(last.get(partition).offset()));
        return result;
    }

    // ---- producing

    private JsonNode produce(JsonNode command) throws Exception {
        String transaction = command.path("transaction").asText("none");
        if (transaction.equals("none")) {
            try (KafkaProducer<byte[], byte[]> producer = producer(command, null)) {
                return send(producer, command);
            }
        }
        String id = command.get("transactional_id").asText();
        KafkaProducer<byte[], byte[]> producer = open.remove(id);
        if (producer == null) {
            producer = producer(command, id);
            producer.initTransactions();
            producer.beginTransaction();
        }
        JsonNode sent = send(producer, command);
        open.put(id, producer);
        if (!transaction.equals("open")) {
            end(id, transaction);
        }
        return sent;
    }

    private JsonNode endTransaction(JsonNode command) throws Exception {
        end(command.get("transactional_id").asText(), command.get("how").asText());
        return JSON.nullNode();
    }

    private void end(String id, String how) throws Exception {
        KafkaProducer<byte[], byte[]> producer = open.remove(id);
        if (producer == null) {
            throw new IllegalArgumentException("no open transaction of " + id);
        }
        try (producer) {
            switch (how) {
                case "commit": producer.commitTransaction(); break;
                case "abort": producer.abortTransaction(); break;
                default: throw new IllegalArgumentException("a transaction ends with commit or abort, not " + how);
            }
        }
        // The end is acknowledged before the markers are written: on a busy machine the next record stood before them.
        await("the markers of " + id, () -> isComplete(id) ? JSON.nullNode() : null);
    }

    private boolean isComplete(String id) throws Exception {
        TransactionState state = admin.describeTransactions(List.of(id)).all().get().get(id).state();
        return state == TransactionState.COMPLETE_COMMIT || state == TransactionState.COMPLETE_ABORT
            || state == TransactionState.EMPTY;
    }

    private KafkaProducer<byte[], byte[]> producer(JsonNode command, String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", command.path("codec").asText("none"));
        properties.put("linger.ms", "5");
        properties.put("max.request.size", "10000000");
        // A node may hear of a topic's partitions one after the other, and refuses the first batch to one that it does not
        // know yet. With more requests in flight the second batch got in without it, and the first was out of order for ever.
        properties.put("max.in.flight.requests.per.connection", "1");
        // Java says what it waited for before Python gives up on the answer.
        properties.put("max.block.ms", "40000");
        if (transactionalId != null) {
            properties.put("transactional.id", transactionalId);
        }
        properties.putAll(strings(command.get("config")));
        if (!properties.containsKey("delivery.timeout.ms")) {
            int lingerMs = Integer.parseInt(properties.getProperty("linger.ms"));
            properties.put("request.timeout.ms", "15000");
            properties.put("delivery.timeout.ms", Integer.toString(lingerMs + 40_000));
        }
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static JsonNode send(KafkaProducer<byte[], byte[]> producer, JsonNode command) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : command.get("records")) {
            Future<RecordMetadata> future = producer.send(record(topic(command), record));
            if (future.isDone()) {
                future.get(); // one that failed at once has waited for max.block.ms, and so would each one after it
            }
            sent.add(future);
        }
        producer.flush();
        ArrayNode result = JSON.createArrayNode();
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata metadata = future.get();
            result.addArray().add(metadata.partition()).add(metadata.offset()).add(metadata.timestamp());
        }
        return result;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode record) throws IOException {
        Integer partition = record.hasNonNull("partition") ? record.get("partition").asInt() : null;
        Long timestamp = record.hasNonNull("timestamp") ? record.get("timestamp").asLong() : null;
        var result = new ProducerRecord<>(topic, partition, timestamp, bytes(record.get("key")), bytes(record.get("value")));
        Headers headers = result.headers();
        for (JsonNode header : record.path("headers")) {
            headers.add(header.get(0).asText(), bytes(header.get(1)));
        }
        return result;
    }

    // ---- delegation tokens, which are made by clients that have logged in

    private JsonNode createToken(JsonNode command) throws Exception {
        try (Admin client = Admin.create(properties(command))) {
            // Kafka before 4.0 has it under this name only.
            var options = new CreateDelegationTokenOptions().maxlifeTimeMs(command.get("max_lifetime_ms").asLong());
            DelegationToken token = client.createDelegationToken(options).delegationToken().get();
            String id = token.tokenInfo().tokenId();
            // The answer may come before the broker knows the token.
            return await("token " + id, () -> client.describeDelegationToken().delegationTokens().get().stream()
                .anyMatch(known -> known.tokenInfo().tokenId().equals(id))
                ? JSON.createObjectNode().put("id", id).put("hmac", token.hmacAsBase64String()) : null);
        }
    }

    private JsonNode expireToken(JsonNode command) throws Exception {
        try (Admin client = Admin.create(properties(command))) {
            var atOnce = new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1);
            client.expireDelegationToken(command.get("hmac").binaryValue(), atOnce).expiryTimestamp().get();
            return JSON.nullNode();
        }
    }

    private Properties properties(JsonNode command) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(strings(command.get("config")));
        return properties;
    }

    // ---- small parts

    private interface Attempt {
        JsonNode run() throws Exception;
    }

    /** Repeats until the attempt gives something; a topic unknown for now is not yet a failure. */
    private static JsonNode await(String what, Attempt attempt) throws Exception {
        long deadline = System.nanoTime() + WAIT_MS * 1_000_000;
        while (System.nanoTime() < deadline) {
            try {
                JsonNode result = attempt.run();
                if (result != null) {
                    return result;
                }
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw error;
                }
            }
            Thread.sleep(20);
        }
        throw new KafkaException("waited " + WAIT_MS + " ms for " + what);
    }

    private static String topic(JsonNode command) {
        return command.get("topic").asText();
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(topic(command), command.get("partition").asInt());
    }

    private static byte[] bytes(JsonNode base64) throws IOException {
        return base64 == null || base64.isNull() ? null : base64.binaryValue();
    }

    private static List<Integer> ints(JsonNode array) {
        List<Integer> result = new ArrayList<>();
        array.forEach(item -> result.add(item.asInt()));
        return result;
    }

    private static List<Integer> nodeIds(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private static Map<String, String> strings(JsonNode object) {
        Map<String, String> result = new HashMap<>();
        if (object != null && !object.isNull()) {
            object.properties().forEach(entry -> result.put(entry.getKey(), entry.getValue().asText()));
        }
        return result;
    }
}
