import com.amazonaws.services.schemaregistry.common.AWSDeserializerInput;
import com.amazonaws.services.schemaregistry.common.AWSSchemaRegistryClient;
import com.amazonaws.services.schemaregistry.deserializers.GlueSchemaRegistryDeserializationFacade;
import com.amazonaws.services.schemaregistry.serializers.GlueSchemaRegistryKafkaSerializer;
import com.amazonaws.services.schemaregistry.serializers.json.JsonDataWithSchema;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import io.apicurio.registry.rest.client.RegistryClient;
import io.apicurio.registry.rest.v2.beans.ArtifactMetaData;
import io.apicurio.registry.serde.AbstractKafkaDeserializer;
import io.apicurio.registry.serde.AbstractKafkaSerializer;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericContainer;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.services.glue.GlueClient;
import software.amazon.awssdk.services.glue.model.GetSchemaVersionRequest;
import software.amazon.awssdk.services.glue.model.GetSchemaVersionResponse;

/**
 * The serializers and deserializers of Apicurio's registry and of AWS Glue behind JSON lines, as Helper.java has them.
 * They ask no service: their clients are interfaces, whose one schema is that of the command.
 *
 * <p>A command says which serde, how it is configured, and the values as their format has them, in base64: bare Avro,
 * Protobuf and JSON. "write" answers what the serializer makes of each, with its headers, and "read" what a value is
 * bare, or the error.
 */
public final class Serdes {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TOPIC = "serdes";

    private final JsonNode command;
    private final String schema;
    private final boolean isKey;

    private Serdes(JsonNode command) {
        this.command = command;
        this.schema = command.get("schema").asText();
        this.isKey = command.path("is_key").asBoolean();
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // nothing but answers on standard output
        Logger.getLogger("").setLevel(Level.SEVERE);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("{\"id\":0,\"ok\":\"ready\"}");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode().set("id", command.get("id"));
            try {
                answer.set("ok", new Serdes(command).answer());
            } catch (Exception | LinkageError error) {
                answer.put("error", error.getClass().getSimpleName()).put("message", causes(error));
            }
            answers.println(answer);
        }
    }

    private ArrayNode answer() throws Exception {
        boolean isWrite = command.get("command").asText().equals("write");
        boolean isGlue = command.get("serde").asText().equals("glue");
        Format format = format();
        Coder coder = isGlue ? glue(isWrite, format) : apicurio(isWrite, format);
        ArrayNode made = JSON.createArrayNode();
        for (JsonNode each : command.get("values")) {
            Headers headers = new RecordHeaders();
            for (JsonNode header : each.get("headers")) {
                headers.add(header.get(0).asText(), header.get(1).binaryValue());
            }
            ObjectNode one = made.addObject();
            try {
                one.put("value", coder.code(headers, each.get("value").binaryValue()));
                ArrayNode written = one.putArray("headers");
                for (Header header : headers) {
                    written.addArray().add(header.key()).add(header.value());
                }
            } catch (Exception error) {
                one.put("error", causes(error));
            }
        }
        return made;
    }

    /** What makes one value of another. */
    private interface Coder {
        byte[] code(Headers headers, byte[] value) throws IOException;
    }

    // Glue

    private Coder glue(boolean isWrite, Format format) {
        UUID version = UUID.fromString(command.get("version").asText());
        AwsCredentialsProvider nobody = StaticCredentialsProvider.create(AwsBasicCredentials.create("a", "b"));
        Map<String, Object> settings = new HashMap<>();
        settings.put("region", "eu-west-1");
        settings.put("endpoint", "http://127.0.0.1:1");
        settings.put("dataFormat", name());
        settings.put("avroRecordType", "GENERIC_RECORD");
        settings.put("protobufMessageType", "DYNAMIC_MESSAGE");
        settings.put("compression", command.path("zlib").asBoolean() ? "ZLIB" : "NONE");
        if (isWrite) {
            GlueSchemaRegistryKafkaSerializer serializer =
                    new GlueSchemaRegistryKafkaSerializer(nobody, version, settings);
            return (headers, value) -> serializer.serialize(TOPIC, format.forGlue(value));
        }
        GlueClient client = proxy(GlueClient.class, (method, given) -> {
            GetSchemaVersionRequest asked = (GetSchemaVersionRequest) given[0];
            if (!method.equals("getSchemaVersion") || !asked.schemaVersionId().equals(version.toString())) {
                throw new IllegalArgumentException(method + " of " + asked);
            }
            return GetSchemaVersionResponse.builder()
                    .schemaVersionId(version.toString())
                    .schemaDefinition(schema)
                    .dataFormat(name())
                    .schemaArn("arn:aws:glue:eu-west-1:123456789012:schema/registry/t")
                    .status("AVAILABLE")
                    .build();
        });
        GlueSchemaRegistryDeserializationFacade facade = new GlueSchemaRegistryDeserializationFacade(
                settings, null, nobody, new AWSSchemaRegistryClient(client));
        return (headers, value) -> format.bare(facade.deserialize(AWSDeserializerInput.builder()
                .buffer(ByteBuffer.wrap(value))
                .transportName(TOPIC)
                .build()));
    }

    // Apicurio

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Coder apicurio(boolean isWrite, Format format) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("apicurio.registry.find-latest", true);
        // It compares the texts of schemas, of which those here differ in words alone.
        settings.put("apicurio.registry.serde.validation-enabled", false);
        settings.put("apicurio.registry.headers.enabled", command.path("in_headers").asBoolean());
        settings.put("apicurio.registry.use-id", command.path("use_id").asText());
        settings.put("apicurio.registry.avro.encoding", command.path("encoding").asText("BINARY"));
        if (command.path("id_bytes").asInt(8) == 4) {
            settings.put("apicurio.registry.id-handler", "io.apicurio.registry.serde.Legacy4ByteIdHandler");
        }
        if (name().equals("PROTOBUF")) {
            String which = isKey ? "key" : "value";
            settings.put("apicurio.registry.deserializer." + which + ".return-class", DynamicMessage.class.getName());
        }
        RegistryClient client = proxy(RegistryClient.class, this::ofRegistry);
        if (isWrite) {
            AbstractKafkaSerializer serializer = switch (name()) {
                case "AVRO" -> new AvroKafkaSerializer<>(client);
                case "PROTOBUF" -> new ProtobufKafkaSerializer<>(client);
                default -> new JsonSchemaKafkaSerializer<>(client);
            };
            serializer.configure(settings, isKey);
            return (headers, value) -> serializer.serialize(TOPIC, headers, format.value(value));
        }
        AbstractKafkaDeserializer deserializer = switch (name()) {
            case "AVRO" -> new AvroKafkaDeserializer<>(client);
            case "PROTOBUF" -> new ProtobufKafkaDeserializer<>(client);
            default -> new JsonSchemaKafkaDeserializer<>(client);
        };
        deserializer.configure(settings, isKey);
        return (headers, value) -> format.bare(deserializer.deserialize(TOPIC, headers, value));
    }

    private Object ofRegistry(String method, Object[] given) {
        long contentId = command.path("content_id").asLong();
        long globalId = command.path("global_id").asLong();
        return switch (method) {
            case "getArtifactMetaData" -> {
                ArtifactMetaData found = new ArtifactMetaData();
                found.setId(TOPIC);
                found.setVersion("1");
                found.setContentId(contentId);
                found.setGlobalId(globalId);
                yield found;
            }
            case "getContentById" -> content(contentId, given);
            case "getContentByGlobalId" -> content(globalId, given);
            case "getArtifactReferencesByContentId", "getArtifactReferencesByGlobalId" -> List.of();
            default -> throw new UnsupportedOperationException(method);
        };
    }

    private ByteArrayInputStream content(long id, Object[] given) {
        if (!given[0].equals(id)) {
            throw new IllegalArgumentException("there is no schema " + given[0] + ", but " + id);
        }
        return new ByteArrayInputStream(schema.getBytes(StandardCharsets.UTF_8));
    }

    private interface Answers {
        Object answer(String method, Object[] given);
    }

    private static <T> T proxy(Class<T> kind, Answers answers) {
        return kind.cast(Proxy.newProxyInstance(
                Serdes.class.getClassLoader(),
                new Class<?>[] {kind},
                (self, method, given) -> answers.answer(method.getName(), given)));
    }

    // Values

    /** A format, whose values are bare bytes here, and objects for the serdes. */
    private abstract static class Format {
        abstract Object value(byte[] bare) throws IOException;

        abstract byte[] bare(Object value) throws IOException;

        Object forGlue(byte[] bare) throws IOException {
            return value(bare);
        }
    }

    private Format format() throws Exception {
        return switch (name()) {
            case "AVRO" -> new OfAvro(new Schema.Parser().parse(schema));
            case "PROTOBUF" -> new OfProtobuf(message());
            default -> new OfJson(schema);
        };
    }

    private String name() {
        return command.get("format").asText();
    }

    private static final class OfAvro extends Format {
        private final Schema schema;

        OfAvro(Schema schema) {
            this.schema = schema;
        }

        @Override
        Object value(byte[] bare) throws IOException {
            return new GenericDatumReader<>(schema).read(null, DecoderFactory.get().binaryDecoder(bare, null));
        }

        @Override
        byte[] bare(Object value) throws IOException {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
            new GenericDatumWriter<>(((GenericContainer) value).getSchema()).write(value, encoder);
            encoder.flush();
            return out.toByteArray();
        }
    }

    private static final class OfProtobuf extends Format {
        private final Descriptor message;

        OfProtobuf(Descriptor message) {
            this.message = message;
        }

        @Override
        Object value(byte[] bare) throws IOException {
            return DynamicMessage.parseFrom(message, bare);
        }

        @Override
        byte[] bare(Object value) {
            return ((Message) value).toByteArray();
        }
    }

    private static final class OfJson extends Format {
        private final String schema;

        OfJson(String schema) {
            this.schema = schema;
        }

        @Override
        Object value(byte[] bare) throws IOException {
            return JSON.readTree(bare);
        }

        @Override
        Object forGlue(byte[] bare) {
            return JsonDataWithSchema.builder(schema, new String(bare, StandardCharsets.UTF_8)).build();
        }

        @Override
        byte[] bare(Object value) throws IOException {
            return value instanceof JsonDataWithSchema glue
                    ? glue.getPayload().getBytes(StandardCharsets.UTF_8)
                    : JSON.writeValueAsBytes(value);
        }
    }

    /** The message of its full name, in files of which each stands behind those that it imports. */
    private Descriptor message() throws Exception {
        Map<String, FileDescriptor> files = new HashMap<>();
        FileDescriptor last = null;
        for (JsonNode each : command.get("files")) {
            FileDescriptorProto file = FileDescriptorProto.parseFrom(each.binaryValue());
            FileDescriptor[] imported = file.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
            last = FileDescriptor.buildFrom(file, imported);
            files.put(file.getName(), last);
        }
        String[] names = command.get("message").asText().split("\\.");
        Descriptor message = last.findMessageTypeByName(names[0]);
        for (int depth = 1; depth < names.length; depth++) {
            message = message.findNestedTypeByName(names[depth]);
        }
        return message;
    }

    private static String causes(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            text.append(text.isEmpty() ? "" : ": ").append(each);
        }
        return text.toString();
    }
}
