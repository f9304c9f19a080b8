import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ShareFetchResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Writes the golden files: messages of Apache Kafka's own classes, as bytes and as JSON.
 *
 * <p>Usage: java -cp "libs/*" GoldenWriter.java DIRECTORY. What the files hold is told in README.md.
 */
public final class GoldenWriter {
    /** A new API is one more line here. */
    private static final List<ApiKeys> APIS = List.of(
        ApiKeys.FETCH,
        ApiKeys.LIST_OFFSETS,
        ApiKeys.METADATA,
        ApiKeys.API_VERSIONS,
        ApiKeys.SASL_HANDSHAKE,
        ApiKeys.SASL_AUTHENTICATE,
        ApiKeys.OFFSET_FOR_LEADER_EPOCH,
        ApiKeys.FIND_COORDINATOR,
        ApiKeys.OFFSET_COMMIT,
        ApiKeys.OFFSET_FETCH,
        ApiKeys.PRODUCE,
        ApiKeys.JOIN_GROUP,
        ApiKeys.HEARTBEAT,
        ApiKeys.LEAVE_GROUP,
        ApiKeys.SYNC_GROUP,
        ApiKeys.DESCRIBE_GROUPS,
        ApiKeys.LIST_GROUPS,
        ApiKeys.DELETE_GROUPS,
        ApiKeys.OFFSET_DELETE,
        ApiKeys.CONSUMER_GROUP_HEARTBEAT,
        ApiKeys.CONSUMER_GROUP_DESCRIBE,
        ApiKeys.SHARE_GROUP_HEARTBEAT,
        ApiKeys.SHARE_GROUP_DESCRIBE,
        ApiKeys.SHARE_FETCH,
        ApiKeys.SHARE_ACKNOWLEDGE,
        ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKeys.ALTER_SHARE_GROUP_OFFSETS,
        ApiKeys.DELETE_SHARE_GROUP_OFFSETS,
        ApiKeys.ADD_PARTITIONS_TO_TXN,
        ApiKeys.ADD_OFFSETS_TO_TXN,
        ApiKeys.END_TXN,
        ApiKeys.TXN_OFFSET_COMMIT,
        ApiKeys.WRITE_TXN_MARKERS,
        ApiKeys.CREATE_TOPICS,
        ApiKeys.DELETE_TOPICS,
        ApiKeys.DELETE_RECORDS,
        ApiKeys.INIT_PRODUCER_ID,
        ApiKeys.DESCRIBE_CONFIGS,
        ApiKeys.DESCRIBE_LOG_DIRS,
        ApiKeys.CREATE_PARTITIONS,
        ApiKeys.ELECT_LEADERS,
        ApiKeys.INCREMENTAL_ALTER_CONFIGS,
        ApiKeys.ALTER_PARTITION_REASSIGNMENTS,
        ApiKeys.LIST_PARTITION_REASSIGNMENTS,
        ApiKeys.ALTER_CONFIGS,
        ApiKeys.ALTER_REPLICA_LOG_DIRS,
        ApiKeys.DESCRIBE_QUORUM,
        ApiKeys.UPDATE_FEATURES,
        ApiKeys.LIST_CONFIG_RESOURCES,
        ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKeys.PUSH_TELEMETRY,
        ApiKeys.DESCRIBE_CLUSTER,
        ApiKeys.DESCRIBE_PRODUCERS,
        ApiKeys.DESCRIBE_TRANSACTIONS,
        ApiKeys.LIST_TRANSACTIONS,
        ApiKeys.DESCRIBE_TOPIC_PARTITIONS,
        ApiKeys.DESCRIBE_ACLS,
        ApiKeys.CREATE_ACLS,
        ApiKeys.DELETE_ACLS,
        ApiKeys.CREATE_DELEGATION_TOKEN,
        ApiKeys.RENEW_DELEGATION_TOKEN,
        ApiKeys.EXPIRE_DELEGATION_TOKEN,
        ApiKeys.DESCRIBE_DELEGATION_TOKEN,
        ApiKeys.DESCRIBE_CLIENT_QUOTAS,
        ApiKeys.ALTER_CLIENT_QUOTAS,
        ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKeys.ALTER_USER_SCRAM_CREDENTIALS);

    private static final String PACKAGE = "org.apache.kafka.common.message.";
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        Files.createDirectories(directory.resolve("beyond"));
        writeErrors(directory);
        writeVersions(directory);
        writeMessage(directory, "RequestHeader", Short.MAX_VALUE);
        writeMessage(directory, "ResponseHeader", Short.MAX_VALUE);
        for (ApiKeys api : APIS) {
            // The classes have versions still in the making too, which no broker speaks unless told to.
            writeMessage(directory, api.name + "Request", api.latestVersion(false));
            writeMessage(directory, api.name + "Response", api.latestVersion(false));
        }
    }

    private static void writeErrors(Path directory) throws IOException {
        List<String> lines = new ArrayList<>();
        for (Errors error : Errors.values()) {
            ObjectNode line = JSON.objectNode();
            line.put("code", error.code());
            line.put("name", error.name());
            line.put("retriable", error.exception() instanceof RetriableException);
            lines.add(line.toString());
        }
        Files.write(directory.resolve("error_codes.jsonl"), lines);
    }

    private static void writeVersions(Path directory) throws IOException {
        List<String> lines = new ArrayList<>();
        for (ApiKeys api : ApiKeys.values()) {
            if (!api.hasValidVersion()) {
                continue;
            }
            ObjectNode line = JSON.objectNode();
            line.put("code", api.id);
            line.put("name", api.name);
            line.put("min", api.oldestVersion());
            line.put("max", api.latestVersion(false));
            for (short version = api.latestVersion(); version >= api.oldestVersion(); version--) {
                if (api.requestHeaderVersion(version) >= 2) {
                    line.put("flexible_from", version);
                }
            }
            lines.add(line.toString());
        }
        Files.write(directory.resolve("api_versions.jsonl"), lines);
    }

    private static void writeMessage(Path directory, String name, short latest) throws Exception {
        Class<?> type = Class.forName(PACKAGE + name + "Data");
        Method toJson = Class.forName(PACKAGE + name + "DataJsonConverter")
            .getMethod("write", type, short.class, boolean.class);
        ApiMessage prototype = (ApiMessage) type.getConstructor().newInstance();
        short last = (short) Math.min(latest, prototype.highestSupportedVersion());
        List<String> lines = new ArrayList<>();
        for (short version = prototype.lowestSupportedVersion(); version <= last; version++) {
            for (Filler filler : fillersOf(type, version)) {
                Message message = (Message) filler.fill(type, schemaOf(type, version), "");
                ObjectNode line = JSON.objectNode();
                line.put("version", version);
                line.put("case", filler.name);
                line.set("bytes", BinaryNode.valueOf(bytesOf(message, version)));
                JsonNode json = (JsonNode) toJson.invoke(null, message, version, true);
                restoreRecords(json, message);
                line.set("json", json);
                lines.add(line.toString());
                if (filler.name.equals("specimen")) {
                    ObjectNode explicit = line.deepCopy();
                    if (addTaggedDefaults(explicit.get("json"), message, name, version)) {
                        lines.add(explicit.put("case", "explicit defaults").toString());
                    }
                }
            }
        }
        Files.write(directory.resolve(name + ".jsonl"), lines);
        writeBeyond(directory, name, prototype, last, toJson);
    }

    /**
     * What a version does with a field that it lacks, or with a null that it cannot carry: at each border
     * between two versions of which only one can. Bytes are null where Kafka refuses.
     */
    private static void writeBeyond(
        Path directory, String name, ApiMessage prototype, short last, Method toJson
    ) throws Exception {
        Class<?> type = prototype.getClass();
        List<String> lines = new ArrayList<>();
        for (short lower = prototype.lowestSupportedVersion(); lower < last; lower++) {
            short upper = (short) (lower + 1);
            for (short[] pair : new short[][] {{upper, lower}, {lower, upper}}) {
                for (Filler filler : beyondFillers(type, pair[0], pair[1])) {
                    Message message = (Message) filler.fill(type, schemaOf(type, pair[0]), "");
                    JsonNode json = (JsonNode) toJson.invoke(null, message, pair[0], true);
                    restoreRecords(json, message);
                    ObjectNode line = JSON.objectNode();
                    line.put("version", pair[1]);
                    line.put("case", filler.name);
                    try {
                        line.set("bytes", BinaryNode.valueOf(bytesOf(message, pair[1])));
                    } catch (UnsupportedVersionException | NullPointerException refused) {
                        line.putNull("bytes");
                    }
                    line.put("json_version", pair[0]);
                    line.set("json", json);
                    lines.add(line.toString());
                }
            }
        }
        Files.write(directory.resolve("beyond").resolve(name + ".jsonl"), lines);
    }

    /** One for each field or null that version {@code has} has and version {@code lacks} lacks. */
    private static List<Filler> beyondFillers(Class<?> type, short has, short lacks) throws Exception {
        Filler richer = seen(type, has);
        Filler poorer = seen(type, lacks);
        List<Filler> fillers = new ArrayList<>();
        for (String path : richer.paths) {
            if (!poorer.paths.contains(path)) {
                Filler filler = new Filler(path, has);
                filler.onlyPath = path;
                fillers.add(filler);
            } else if (richer.nullable.contains(path) && !poorer.nullable.contains(path)) {
                Filler filler = new Filler("null " + path, has);
                filler.onlyPath = path;
                filler.nullPath = path;
                fillers.add(filler);
            }
        }
        return fillers;
    }

    private static Filler seen(Class<?> type, short version) throws Exception {
        Filler filler = new Filler("seen", version);
        filler.items = 1;
        filler.fill(type, schemaOf(type, version), "");
        return filler;
    }

    private static List<Filler> fillersOf(Class<?> type, short version) throws Exception {
        Schema schema = schemaOf(type, version);
        Filler populated = new Filler("populated", version);
        populated.items = 2;
        populated.fill(type, schema, "");
        List<Filler> fillers = new ArrayList<>();
        fillers.add(new Filler(populated));
        if (populated.sawFlexible) {
            Filler tagged = new Filler(populated);
            tagged.name = "tagged";
            tagged.unknownTags = true;
            fillers.add(tagged);
        }
        Filler minimal = new Filler("minimal", version);
        minimal.defaults = true;
        fillers.add(minimal);
        Filler specimen = new Filler("specimen", version);
        specimen.defaults = true;
        specimen.items = 1;
        fillers.add(specimen);
        for (String path : populated.nullable) {
            Filler nulled = new Filler("null " + path, version);
            nulled.items = 1;
            nulled.nullPath = path;
            fillers.add(nulled);
        }
        Filler empty = new Filler("empty", version);
        empty.empty = true;
        fillers.add(empty);
        Filler leaves = new Filler("empty leaves", version);
        leaves.empty = true;
        leaves.items = 1;
        fillers.add(leaves);
        return fillers;
    }

    private static byte[] bytesOf(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    /** Kafka's converter leaves the content of records out: this puts it back. */
    private static void restoreRecords(JsonNode json, Object message) throws Exception {
        for (Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || !json.has(field.getName())) {
                continue;
            }
            field.setAccessible(true);
            Object value = field.get(message);
            JsonNode node = json.get(field.getName());
            if (value instanceof BaseRecords) {
                ByteBuffer buffer = ((MemoryRecords) value).buffer();
                byte[] bytes = new byte[buffer.remaining()];
                buffer.get(bytes);
                ((ObjectNode) json).set(field.getName(), BinaryNode.valueOf(bytes));
            } else if (value instanceof Message) {
                restoreRecords(node, value);
            } else if (value instanceof Collection) {
                int index = 0;
                for (Object item : (Collection<?>) value) {
                    if (item instanceof Message) {
                        restoreRecords(node.get(index), item);
                    }
                    index++;
                }
            }
        }
    }

    /** Adds the tagged fields that the converter leaves out because they hold their defaults. */
    private static boolean addTaggedDefaults(JsonNode json, Object message, String name, short version) throws Exception {
        boolean added = false;
        for (BoundField bound : schemaOf(message.getClass(), version).fields()) {
            if (bound.def.type instanceof TaggedFields) {
                for (var tagged : ((TaggedFields) bound.def.type).fields().values()) {
                    String key = camelCase(tagged.name);
                    if (!json.has(key)) {
                        ((ObjectNode) json).set(key, jsonOf(fieldValue(message, key), name, version));
                        added = true;
                    }
                }
                continue;
            }
            JsonNode items = json.get(camelCase(bound.def.name));
            if (items != null && items.isArray() && !items.isEmpty() && items.get(0).isObject()) {
                Object first = ((Collection<?>) fieldValue(message, camelCase(bound.def.name))).iterator().next();
                added |= addTaggedDefaults(items.get(0), first, name, version);
            }
        }
        return added;
    }

    private static Object fieldValue(Object message, String name) throws Exception {
        Field field = message.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(message);
    }

    private static JsonNode jsonOf(Object value, String name, short version) throws Exception {
        if (value instanceof Message) {
            Class<?> converter = Class.forName(
                PACKAGE + name + "DataJsonConverter$" + value.getClass().getSimpleName() + "JsonConverter");
            Method write = converter.getMethod("write", value.getClass(), short.class, boolean.class);
            return (JsonNode) write.invoke(null, value, version, true);
        }
        Object plain = value instanceof Uuid ? value.toString() : value;
        return new ObjectMapper().valueToTree(plain);
    }

    private static String camelCase(String name) {
        String[] words = name.split("_");
        StringBuilder result = new StringBuilder(words[0]);
        for (String word : Arrays.copyOfRange(words, 1, words.length)) {
            result.append(Character.toUpperCase(word.charAt(0))).append(word.substring(1));
        }
        return result.toString();
    }

    private static Schema schemaOf(Class<?> type, short version) throws Exception {
        return ((Schema[]) type.getField("SCHEMAS").get(null))[version];
    }

    /** Fills one message, in one of the ways that the cases ask for. */
    private static final class Filler {
        String name;
        final short version;
        /** Items in each array. */
        int items = 0;
        /** Leaves fields at their defaults. */
        boolean defaults = false;
        /** Empties strings, bytes and arrays of primitives; with no items, all arrays. */
        boolean empty = false;
        /** Adds tagged fields that no version has. */
        boolean unknownTags = false;
        /** The one field to set to null. */
        String nullPath = "none";

        /** The one field to fill, with one item in each array on the way to it; all others keep defaults. */
        String onlyPath = null;

        final Set<String> paths = new TreeSet<>();
        final Set<String> nullable = new TreeSet<>();
        boolean sawFlexible = false;
        private int counter = 0;

        Filler(String name, short version) {
            this.name = name;
            this.version = version;
        }

        /** The same way, without what was seen on it. */
        Filler(Filler other) {
            this(other.name, other.version);
            items = other.items;
        }

        Object fill(Class<?> type, Schema schema, String path) throws Exception {
            Object message = type.getConstructor().newInstance();
            for (BoundField bound : schema.fields()) {
                if (bound.def.type instanceof TaggedFields) {
                    sawFlexible = true;
                    for (var tagged : ((TaggedFields) bound.def.type).fields().values()) {
                        set(message, tagged.name, tagged.type, path);
                    }
                } else {
                    set(message, bound.def.name, bound.def.type, path);
                }
            }
            if (unknownTags) {
                List<RawTaggedField> tags = ((Message) message).unknownTaggedFields();
                tags.add(new RawTaggedField(100, new byte[] {(byte) ++counter, 0, -1}));
                tags.add(new RawTaggedField(70_000, new byte[0]));
            }
            return message;
        }

        private void set(
            Object message, String name, org.apache.kafka.common.protocol.types.Type wire, String path
        ) throws Exception {
            Field field = message.getClass().getDeclaredField(camelCase(name));
            field.setAccessible(true);
            String fieldPath = path.isEmpty() ? name : path + "." + name;
            paths.add(fieldPath);
            if (message instanceof ShareFetchResponseData.PartitionData && name.equals("records")) {
                // Not nullable, which the type in the schema does not say.
                field.set(message, MemoryRecords.EMPTY);
            } else if (wire.isNullable()) {
                nullable.add(fieldPath);
            }
            if (onlyPath != null && !(onlyPath + ".").startsWith(fieldPath + ".")) {
                return;
            }
            if (fieldPath.equals(nullPath)) {
                field.set(message, null);
            } else if (defaults && field.get(message) == null) {
                return;
            } else if (wire.isArray()) {
                field.set(message, array(field, wire.arrayElementType().get(), fieldPath));
            } else if (Message.class.isAssignableFrom(field.getType())) {
                field.set(message, fill(field.getType(), schemaOf(field.getType(), version), fieldPath));
            } else if (!defaults && wire == org.apache.kafka.common.protocol.types.Type.UINT16) {
                // An int in Java, of which the bytes carry half.
                field.set(message, 50_000 + ++counter);
            } else if (!defaults) {
                field.set(message, scalar(field.getType(), field.get(message)));
            }
        }

        private Object array(
            Field field, org.apache.kafka.common.protocol.types.Type wire, String path
        ) throws Exception {
            Class<?> itemType = itemType(field);
            boolean structures = Message.class.isAssignableFrom(itemType);
            int count = empty && !structures ? 0 : onlyPath != null ? 1 : items;
            @SuppressWarnings("unchecked")
            Collection<Object> array = field.getType() == List.class
                ? new ArrayList<>()
                : (Collection<Object>) field.getType().getConstructor(int.class).newInstance(count);
            for (int index = 0; index < count; index++) {
                Object item = structures
                    ? fill(itemType, schemaOf(itemType, version), path)
                    : scalar(itemType, null);
                if (!array.add(item)) {
                    throw new IllegalStateException("two items of " + path + " are equal");
                }
            }
            return array;
        }

        private static Class<?> itemType(Field field) {
            Type list = field.getType() == List.class
                ? field.getGenericType()
                : field.getType().getGenericSuperclass();
            return (Class<?>) ((ParameterizedType) list).getActualTypeArguments()[0];
        }

        /** Each value differs from all before it; every third number is negative. */
        private Object scalar(Class<?> type, Object current) {
            int next = defaults ? 0 : ++counter;
            int sign = next % 3 == 0 ? -1 : 1;
            if (type == boolean.class || type == Boolean.class) {
                return !Boolean.TRUE.equals(current);
            } else if (type == byte.class || type == Byte.class) {
                return (byte) (sign * (next == 0 ? 0 : next % 125 + 2));
            } else if (type == short.class || type == Short.class) {
                return (short) (sign * (next == 0 ? 0 : 1000 + next));
            } else if (type == int.class || type == Integer.class) {
                return sign * (next == 0 ? 0 : 100_000_000 + next);
            } else if (type == long.class || type == Long.class) {
                return sign * (next == 0 ? 0L : (1L << 40) + next);
            } else if (type == double.class || type == Double.class) {
                return next + 0.5;
            } else if (type == Uuid.class) {
                return new Uuid(0xfedc_ba98_0000_0000L + next, next);
            } else if (type == String.class) {
                return empty || next == 0 ? "" : "text-\u017elu\u0165-" + next;
            } else if (type == byte[].class) {
                return empty ? new byte[0] : ("bytes " + next).getBytes(StandardCharsets.UTF_8);
            } else if (type == ByteBuffer.class) {
                return ByteBuffer.wrap(empty ? new byte[0] : ("bytes " + next).getBytes(StandardCharsets.UTF_8));
            } else if (type == BaseRecords.class) {
                return empty ? MemoryRecords.EMPTY : MemoryRecords.withRecords(
                    Compression.NONE, new SimpleRecord(next, ("record " + next).getBytes(StandardCharsets.UTF_8)));
            }
            throw new IllegalArgumentException("no value for " + type);
        }
    }
}
