import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.*;

/** Groups of the classic protocol that live for a while, and what the assignors of Kafka's own consumer make of them. */
public class ConsumerAssignorWriter {
    static final Random RANDOM = new Random(429);
    static final int GROUPS = 22;
    static final int STEPS = 6;

    public static void main(String[] args) throws Exception {
        try (PrintWriter out = new PrintWriter(args[0] + "/consumer_assignors.jsonl", "UTF-8")) {
            for (String assignor : List.of("range", "roundrobin", "sticky", "cooperative-sticky"))
                for (int group = 0; group < GROUPS; group++) new Group(out, assignor, group).live();
        }
        try (PrintWriter out = new PrintWriter(args[0] + "/consumer_protocol.jsonl", "UTF-8")) {
            protocol(out);
        }
    }

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    static class Member {
        final String id;
        final String instance;
        final String rack;
        List<String> topics;
        List<TopicPartition> owned = new ArrayList<>();
        int generation = -1;

        Member(String id, String instance, String rack, List<String> topics) {
            this.id = id;
            this.instance = instance;
            this.rack = rack;
            this.topics = topics;
        }
    }

    static class Group {
        final PrintWriter out;
        final String assignor;
        final boolean sameTopics;
        final boolean racks;
        final int largest;
        final TreeMap<String, List<String>> topics = new TreeMap<>();
        final List<Member> members = new ArrayList<>();
        int generation;
        int joined;

        Group(PrintWriter out, String assignor, int number) {
            this.out = out;
            this.assignor = assignor;
            sameTopics = number % 2 == 0;
            racks = number % 4 >= 2;
            largest = number % 5 == 0 ? 20 : 7;
            for (int topic = 0; topic < 2 + RANDOM.nextInt(4); topic++) grow("t" + topic, 1 + RANDOM.nextInt(9));
            // Topics that are split alike.
            if (number % 3 == 0) for (String topic : List.of("u", "v")) grow(topic, 6);
        }

        void grow(String topic, int partitions) {
            for (int i = 0; i < partitions; i++) {
                StringBuilder replicas = new StringBuilder();
                for (char rack : "abc".toCharArray()) if (racks && RANDOM.nextInt(2) == 0) replicas.append(rack);
                topics.computeIfAbsent(topic, unused -> new ArrayList<>()).add(replicas.toString());
            }
        }

        void live() {
            for (int count = RANDOM.nextInt(largest); count >= 0; count--) join();
            for (int step = 0; step < STEPS; step++) {
                change();
                assign();
            }
        }

        void join() {
            String id = "m" + RANDOM.nextInt(1000) + (char) ('a' + joined++ % 26);
            String instance = RANDOM.nextInt(4) == 0 ? "i" + RANDOM.nextInt(1000) + joined : null;
            String rack = racks && RANDOM.nextInt(5) > 0 ? "abcd".substring(RANDOM.nextInt(4)).substring(0, 1) : null;
            members.add(RANDOM.nextInt(members.size() + 1), new Member(id, instance, rack, subscribed()));
        }

        List<String> subscribed() {
            List<String> subscribed = new ArrayList<>();
            for (String topic : topics.keySet()) if (sameTopics || RANDOM.nextBoolean()) subscribed.add(topic);
            if (!sameTopics && RANDOM.nextInt(6) == 0) subscribed.add("ghost");
            if (subscribed.isEmpty()) subscribed.add(topics.firstKey());
            return subscribed;
        }

        void change() {
            for (int left = RANDOM.nextInt(3); left > 0 && members.size() > 1 && generation > 0; left--)
                members.remove(RANDOM.nextInt(members.size()));
            for (int more = RANDOM.nextInt(3); more > 0 && members.size() < 20; more--) join();
            if (RANDOM.nextInt(4) == 0) grow(topics.firstKey(), 1 + RANDOM.nextInt(4));
            if (!sameTopics && RANDOM.nextInt(2) == 0) members.get(RANDOM.nextInt(members.size())).topics = subscribed();
            if (sameTopics && RANDOM.nextInt(6) == 0) {
                grow("new" + generation, 1 + RANDOM.nextInt(5));
                for (Member member : members) member.topics = subscribed();
            }
            Member one = members.get(RANDOM.nextInt(members.size()));
            Member other = members.get(RANDOM.nextInt(members.size()));
            // One that lost its memory, and one that claims what it does not have.
            if (RANDOM.nextInt(8) == 0) {
                one.owned = new ArrayList<>();
                one.generation = -1;
            } else if (RANDOM.nextInt(5) == 0 && one != other) {
                for (TopicPartition partition : other.owned)
                    if (RANDOM.nextInt(3) == 0 && one.topics.contains(partition.topic()) && !one.owned.contains(partition))
                        one.owned.add(partition);
            }
        }

        void assign() {
            generation++;
            Map<String, Subscription> subscriptions = new HashMap<>();
            StringJoiner lines = new StringJoiner(",");
            for (Member member : members) {
                ByteBuffer bytes = subscription(assignor, member, RANDOM.nextInt(10) == 0 ? (short) RANDOM.nextInt(4) : 3);
                lines.add("[" + text(member.id) + "," + text(member.instance) + "," + text(base64(bytes)) + "]");
                Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes.duplicate());
                subscription.setGroupInstanceId(Optional.ofNullable(member.instance));
                subscriptions.put(member.id, subscription);
            }
            Map<String, Assignment> made =
                assignor(assignor).assign(cluster(), new GroupSubscription(subscriptions)).groupAssignment();
            StringJoiner shares = new StringJoiner(",");
            for (Member member : members) {
                List<TopicPartition> partitions = made.get(member.id).partitions();
                shares.add(text(member.id) + ":" + byTopic(partitions));
                // Some miss a generation, and come back with what they had.
                if (RANDOM.nextInt(8) > 0) {
                    member.owned = new ArrayList<>(partitions);
                    member.generation = generation;
                }
            }
            StringJoiner counts = new StringJoiner(",");
            topics.forEach((topic, replicas) -> counts.add(text(topic) + ":" + (racks
                ? replicas.stream().map(ConsumerAssignorWriter::text).collect(Collectors.joining(",", "[", "]"))
                : replicas.size())));
            out.printf("{\"assignor\":%s,\"topics\":{%s},\"members\":[%s],\"assigned\":{%s}}%n", text(assignor), counts,
                lines, shares);
        }

        Cluster cluster() {
            Map<Character, Node> nodes = new TreeMap<>();
            for (char rack : "abc".toCharArray()) nodes.put(rack, new Node(rack, "host", 9092, String.valueOf(rack)));
            List<PartitionInfo> partitions = new ArrayList<>();
            topics.forEach((topic, racksOf) -> {
                for (int index = 0; index < racksOf.size(); index++) {
                    Node[] replicas = racksOf.get(index).chars().mapToObj(rack -> nodes.get((char) rack)).toArray(Node[]::new);
                    partitions.add(new PartitionInfo(topic, index, nodes.get('a'), replicas, replicas));
                }
            });
            return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
        }
    }

    /** As the consumer of that assignor writes it; the first version of sticky's user data has no generation at its end. */
    static ByteBuffer subscription(String assignor, Member member, short version) {
        boolean eager = !assignor.equals("cooperative-sticky");
        ByteBuffer data = userData(assignor, member.owned, member.generation);
        if (data != null && version == 0 && eager) data.limit(data.limit() - 4);
        List<TopicPartition> owned = eager ? List.of() : member.owned;
        return ConsumerProtocol.serializeSubscription(new Subscription(member.topics, data, owned, member.generation,
            Optional.ofNullable(member.rack)), version);
    }

    @SuppressWarnings("removal")
    static ByteBuffer userData(String name, List<TopicPartition> owned, int generation) {
        ConsumerPartitionAssignor assignor = assignor(name);
        if (generation >= 0)
            assignor.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        return assignor.subscriptionUserData(Set.of());
    }

    /** Bytes beside what they say, one line for each. The topics have names that Java's maps keep in order. */
    static void protocol(PrintWriter out) {
        List<TopicPartition> none = List.of();
        List<TopicPartition> some = List.of(new TopicPartition("b", 0), new TopicPartition("b", 2), new TopicPartition("b", 17));
        List<TopicPartition> more = new ArrayList<>(some);
        more.add(new TopicPartition("c", 1));
        for (String name : List.of("range", "sticky", "cooperative-sticky"))
            for (List<TopicPartition> owned : List.of(none, some, more))
                for (int generation : new int[] {-1, 0, 70000})
                    for (short version = 0; version <= 3; version++) {
                        Member member = new Member("m", null, generation == 0 ? null : "rack-1", List.of("b", "c"));
                        member.owned = owned;
                        member.generation = generation;
                        ByteBuffer data = userData(name, owned, generation);
                        List<TopicPartition> told = name.equals("cooperative-sticky") ? owned : none;
                        ByteBuffer bytes = ConsumerProtocol.serializeSubscription(new Subscription(member.topics, data, told,
                            generation, Optional.ofNullable(member.rack)), version);
                        out.printf("{\"subscription\":%s,\"version\":%d,\"assignor\":%s,\"last\":%s,\"owned\":%s,\"generation\":%d,"
                            + "\"rack\":%s,\"user_data\":%s}%n", text(base64(bytes)), version, text(name), byTopic(owned),
                            byTopic(told), generation, text(member.rack), text(data == null ? null : base64(data)));
                    }
        for (List<TopicPartition> owned : List.of(none, some, more))
            for (ByteBuffer data : new ByteBuffer[] {null, ByteBuffer.allocate(0), ByteBuffer.wrap(new byte[] {1, 2, 3})})
                for (short version = 0; version <= 3; version++) {
                    List<TopicPartition> sorted = new ArrayList<>(owned);
                    sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
                    ByteBuffer bytes = ConsumerProtocol.serializeAssignment(new Assignment(sorted, data), version);
                    out.printf("{\"assignment\":%s,\"version\":%d,\"owned\":%s,\"user_data\":%s}%n", text(base64(bytes)), version,
                        byTopic(owned), text(data == null ? null : base64(data)));
                }
    }

    static String byTopic(List<TopicPartition> partitions) {
        TreeMap<String, TreeSet<Integer>> topics = new TreeMap<>();
        for (TopicPartition partition : partitions)
            topics.computeIfAbsent(partition.topic(), unused -> new TreeSet<>()).add(partition.partition());
        StringJoiner lines = new StringJoiner(",", "{", "}");
        topics.forEach((topic, numbers) -> lines.add(text(topic) + ":" + numbers.toString().replace(" ", "")));
        return lines.toString();
    }

    static String base64(ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return Base64.getEncoder().encodeToString(copy);
    }

    static String text(String text) {
        return text == null ? "null" : '"' + text + '"';
    }
}
