"""Settings of other clients that do not exist here, by dotted name, with the replacement.

Covers Java's consumer, producer and admin client, librdkafka and confluent-kafka with its serializers, aiokafka and
kafka-python. Settings that this client has under the same name, or under an alias, are in the core's table
(`monedula.config_keys()`).
"""

from monedula._migration_hints.arguments import BY_NAME, NO_CALLBACKS

_LEAVE = "leave it out"
_METRICS = "metrics() and health() have the figures whenever you ask; nothing is reported by itself"
_LOGGING = 'logging.getLogger("monedula").setLevel("DEBUG") shows more; all that the client says goes to that logger'
_NO_HOOK = f"connections are made in the core, without a hook; {_LEAVE}"
_VERSIONS = f"versions are negotiated with each broker; {_LEAVE}"
_BROKER = f"it is for brokers, which check tokens; {_LEAVE}"
_METADATA = "retry.backoff.ms and retry.backoff.max.ms say how soon metadata is asked for again"
_FINISHED = (
    "what is finished is committed: a batch is when the next one is asked for, or after finish(batch); "
    "commit(batch) commits it at once"
)
_CONTEXT = "ssl.ca.location, ssl.certificate.location and ssl.key.location name the files that the context would load"
_DELIVERY = "give on_delivery=f to send(), or add_done_callback(f) to its future: f is called with the future"
_COMMITTED = "commit_async(...).add_done_callback(f) calls f with the outcome; on_event=f sees automatic commits too"
_VERIFY = (
    "ssl.ca.location, ssl.crl.location and ssl.endpoint.identification.algorithm say which certificates are good; "
    "there is no hook"
)
_INTERCEPT = "there are no interceptors: wrap the call to send(), or the loop over records"
_ADAPTIVE = f"records without a key always go more often to brokers that keep up (KIP-794); {_LEAVE}"
_SUBJECT = "value.subject.name.strategy and key.subject.name.strategy, such as RecordNameStrategy"
_VERSION = "Producer(settings, value=monedula.Avro(subject='orders-value', version=3))"
_NO_RULES = f"rules of schemas are not applied, and a schema that has some is refused; {_LEAVE}"
_VALIDATES = f"the types of a JSON Schema are checked, and nothing else that it says; {_LEAVE}"
_NOT_JAVA = f"it names a part of Java; {_LEAVE}"
_NOT_TLS = f"TLS is rustls with AWS-LC, and takes no other {{}}; {_LEAVE}"

PREFIXES: dict[str, str] = {
    "default.topic.con": "put its settings into the dict itself",
    "metrics.": _METRICS,
    "sasl.oauthbearer.jwks.": _BROKER,
    "ssl.engine.": _NOT_TLS.format("engine"),
    "ssl.provider": _NOT_TLS.format("provider"),
}
"""Prefixes of names, with the replacement."""

SETTINGS: dict[str, str] = {
    "api.version": _VERSIONS,
    "api.version.auto.timeout.ms": _VERSIONS,
    "api.version.fallback.ms": _VERSIONS,
    "api.version.request": _VERSIONS,
    "api.version.request.timeout.ms": _VERSIONS,
    "auto.commit.enable": "enable.auto.commit",
    "auto.include.jmx.reporter": _METRICS,
    "background.event.cb": _NO_HOOK,
    "batch.num.messages": "batch.size bounds a batch, in bytes",
    "bootstrap.controllers": "bootstrap.servers: calls of an Admin go through brokers",
    "bootstrap.resolve.timeout.ms": "bootstrap.timeout.ms is the time for the first contact as a whole",
    "broker.address.family": "all addresses of a name are tried; an address in bootstrap.servers is of one family",
    "broker.address.ttl": f"names are looked up for each connection; {_LEAVE}",
    "broker.version.fallback": _VERSIONS,
    "buffer.memory.allocation.strategy": f"buffer.memory is what counts; {_LEAVE}",
    "builtin.features": f"TLS, SASL and all codecs are always there; {_LEAVE}",
    "client.dns.lookup": f"all addresses of a name are tried; {_LEAVE}",
    "closesocket.cb": _NO_HOOK,
    "connect.cb": _NO_HOOK,
    "consume.callback.max.messages": "poll(max_rows=n) is the most records of a batch",
    "consume.cb": "loop over batches() or records(), sync or async",
    "consumer.timeout.ms": "batches(timeout=1.0) and records(timeout=1.0) end after so many seconds without a record",
    "coordinator.query.interval.ms": f"the coordinator is looked for when it is needed; {_LEAVE}",
    "debug": _LOGGING,
    "default.offset.commit.callback": _COMMITTED,
    "delivery.report.only.error": "on_delivery is called for every record; future.exception() is None if it arrived",
    "dr.cb": _DELIVERY,
    "dr.msg.cb": _DELIVERY,
    "enable.auto.offset.store": _FINISHED,
    "enable.gapless.guarantee": "with enable.idempotence the records of a partition keep their order, without gaps",
    "enable.incremental.fetch.sessions": f"fetch sessions are used with every broker that has them; {_LEAVE}",
    "enable.partition.eof": 'batches(until="latest"), or read(...) without a group, ends at what is there at its start',
    "enable.random.seed": _LEAVE,
    "enable.sasl.oauthbearer.unsecure.jwt": "a function as sasl.oauthbearer.token.provider may return such a token",
    "enabled.events": _METRICS,
    "error.cb": "errors are raised by the call that waits; those that are retried are in health() and in the log",
    "fetch.error.backoff.ms": "retry.backoff.ms",
    "fetch.queue.backoff.ms": f"queued.max.bytes bounds what is fetched ahead; {_LEAVE}",
    "group.protocol.type": f"it is always consumer; {_LEAVE}",
    "interceptor.classes": _INTERCEPT,
    "interceptors": _INTERCEPT,
    "internal.termination.signal": _LEAVE,
    "internal.throw.on.fetch.stable.offset.unsupported": _LEAVE,
    "kafka.client": _LEAVE,
    "key.deserializer": "Consumer(settings, key=monedula.Json(schema)), Avro or Protobuf, and bytes without it",
    "key.serializer": "Producer(settings, key=monedula.Avro(schema)), Protobuf or Json; bytes and texts without it",
    "log.cb": _LOGGING,
    "log.connection.close": _LOGGING,
    "log.level": _LOGGING,
    "log.queue": _LOGGING,
    "log.thread.name": _LOGGING,
    "logger": _LOGGING,
    "loop": "an async client belongs to the event loop in which it is used first; leave it out",
    "max.batch.size": "batch.size",
    "message.copy.max.bytes": f"send() has copied the record when it returns; {_LEAVE}",
    "metadata.cluster.check.enable": _LEAVE,
    "metric.group.prefix": _METRICS,
    "metric.reporters": _METRICS,
    "msg.order.cmp": _LEAVE,
    "offset.commit.cb": _COMMITTED,
    "offset.store.method": "offsets are committed to the group; no file has them",
    "offset.store.path": "offsets are committed to the group; no file has them",
    "offset.store.sync.interval.ms": "offsets are committed to the group; no file has them",
    "on.commit": _COMMITTED,
    "on.delivery": _DELIVERY,
    "oauthbearer.token.refresh.cb": "sasl.oauthbearer.token.provider (or oauth_cb) is the function that brings tokens",
    "opaque": "a callback may be a closure or a functools.partial, which has what you need with it",
    "open.cb": _NO_HOOK,
    "partitioner.adaptive.partitioning.enable": _ADAPTIVE,
    "partitioner.availability.timeout.ms": _ADAPTIVE,
    "partitioner.cb": "partitioner=f of Producer, with f(topic, key, value, partitions) -> partition",
    "partitioner.ignore.keys": "partitioner=random pays no regard to keys",
    "partitioner.rack.aware": "no partitioner here knows of racks; partitioner=f of Producer may be one of your own",
    "plugin.library.paths": _INTERCEPT,
    "produce.offset.report": f"every future's result() has the offset; {_LEAVE}",
    "queue.buffering.backpressure.threshold": f"a batch grows while requests are in flight; {_LEAVE}",
    "queue.buffering.max.messages": "buffer.memory bounds what waits, in bytes; send() waits for room for max.block.ms",
    "queued.min.messages": "queued.max.bytes bounds what is fetched ahead, in bytes",
    "queuing.strategy": f"the records of a partition keep their order; {_LEAVE}",
    "rebalance.cb": "subscribe(..., on_assigned=f, on_revoked=g, on_lost=h)",
    "rebalance.timeout.ms": "max.poll.interval.ms: a rebalance waits for so long",
    "reconnect.backoff.jitter.ms": f"waits vary by 20 % already; {_LEAVE}",
    "reference.subject.name.strategy": f"what a schema refers to is registered under its own name; {_LEAVE}",
    "resolve.cb": _NO_HOOK,
    "sasl.kerberos.domain.name": "bootstrap.servers: the name by which a broker is dialled is the one in its principal",
    "sasl.kerberos.name": "sasl.kerberos.principal",
    "sasl.login.class": "no class is loaded; the settings of the mechanism say how to log in",
    "sasl.oauthbearer.allow.unverified.audience": _BROKER,
    "sasl.oauthbearer.allow.unverified.issuer": _BROKER,
    "sasl.oauthbearer.clock.skew.seconds": _BROKER,
    "sasl.oauthbearer.expected.audience": _BROKER,
    "sasl.oauthbearer.expected.issuer": _BROKER,
    "sasl.oauthbearer.jwt.validator.class": _BROKER,
    "sasl.oauthbearer.scope.claim.name": _BROKER,
    "sasl.oauthbearer.sub.claim.name": (
        "the principal is that of the token; a function as sasl.oauthbearer.token.provider may name another"
    ),
    "sasl.plain.password": "sasl.password",
    "sasl.plain.username": "sasl.username",
    "schema.id.deserializer": f"ids in headers are found by themselves; {_LEAVE}",
    "schema.id.serializer": "Producer(settings, value=monedula.Avro(schema, id_in_header=True))",
    "security.providers": _NOT_TLS.format("provider"),
    "selector": _LEAVE,
    "send.buffer.bytes": f"the system sizes the send buffer; {_LEAVE}",
    "skip.known.types": f"Google's own files are never registered; {_LEAVE}",
    "socket.blocking.max.ms": f"no thread of yours waits for a socket; {_LEAVE}",
    "socket.cb": _NO_HOOK,
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms is the time for every attempt",
    "socket.keepalive.enable": f"it is always on; {_LEAVE}",
    "socket.max.fails": "a broken connection is made anew, after reconnect.backoff.ms",
    "socket.nagle.disable": f"it is always disabled; {_LEAVE}",
    "socket.options": f"TCP_NODELAY and keepalive are on; receive.buffer.bytes is the receive buffer; {_LEAVE}",
    "socket.send.buffer.bytes": f"the system sizes the send buffer; {_LEAVE}",
    "ssl.ca": "ssl.ca.pem, or ssl.ca.location",
    "ssl.ca.certificate.stores": f"without a CA of its own the client takes the system's; {_LEAVE}",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.certificate": "ssl.certificate.pem, or ssl.certificate.location",
    "ssl.certificate.verify.cb": _VERIFY,
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm: https checks the name, none does not",
    "ssl.ciphers": "ssl.cipher.suites",
    "ssl.client.auth": "it is a setting of brokers",
    "ssl.context": _CONTEXT,
    "ssl.crlfile": "ssl.crl.location",
    "ssl.key": "ssl.key.pem, or ssl.key.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.keymanager.algorithm": _NOT_JAVA,
    "ssl.password": "ssl.key.password",
    "ssl.secure.random.implementation": f"random numbers are the system's; {_LEAVE}",
    "ssl.sigalgs.list": (
        "signatures are those that rustls takes: ECDSA, RSA from 2048 bits on with SHA-256 or longer, Ed25519"
    ),
    "ssl.trustmanager.algorithm": _NOT_JAVA,
    "statistics.interval.ms": _METRICS,
    "stats.cb": _METRICS,
    "sticky.partitioning.linger.ms": f"records without a key change the partition with each batch (KIP-480); {_LEAVE}",
    "subject.name.strategy": _SUBJECT,
    "subject.name.strategy.conf": "subject.name.strategy.kafka.cluster.id and subject.name.strategy.fallback.type",
    "subject.name.strategy.type": f"{_SUBJECT} or AssociatedNameStrategy",
    "throttle.cb": 'metrics()["throttled"] counts the answers of brokers that throttled this client',
    "topic.blacklist": "subscribe(pattern=..., exclude=...) leaves topics out",
    "topic.metadata.refresh.fast.cnt": _METADATA,
    "topic.metadata.refresh.fast.interval.ms": _METADATA,
    "topic.metadata.refresh.sparse": f"only topics in use are asked for; {_LEAVE}",
    "topics": "Consumer(settings, topics=[...])",
    "transaction.two.phase.commit.enable": "there is no two-phase commit here (KIP-939)",
    "use.deprecated.format": f"it is neither read nor written; {_LEAVE}",
    "use.latest.with.metadata": _VERSION,
    "use.schema.id": _VERSION,
    "validate": _VALIDATES,
    "validate.strict": _VALIDATES,
    "validate.strict.allow.default": _VALIDATES,
    "validation.rules.execution": _NO_RULES,
    "validation.rules.executor": _NO_RULES,
    "validation.rules.fail.fast": _NO_RULES,
    "value.deserializer": "Consumer(settings, value=monedula.Json(schema)), Avro or Protobuf, and bytes without it",
    "value.format": "Consumer(settings, value=monedula.Json(schema)); the option is the Spark source's",
    "value.serializer": "Producer(settings, value=monedula.Avro(schema)), Protobuf or Json; bytes and texts without it",
}
"""Full names, with the replacement."""

_ACKNOWLEDGED = "commit_async().add_done_callback(f) calls f with the outcome, in the next call that waits"
_NO_OFFSETS = f"brokers know what became of each record, and members have no offsets; {_LEAVE}"

OF_SHARE_CONSUMER: dict[str, str] = {
    "assignors": f"the brokers assign (group.share.assignors); {_LEAVE}",
    **dict.fromkeys(("default.offset.commit.callback", "offset.commit.cb", "on.commit"), _ACKNOWLEDGED),
    "enable.auto.offset.store": (
        "what is undecided is accepted when the next batch is asked for; accept(batch) decides before, and "
        "acknowledge='explicit' leaves all decisions to the program"
    ),
    "enable.partition.eof": "batches(timeout=1.0) and records(timeout=1.0) end after so many seconds without a record",
    **dict.fromkeys(("offset.store.method", "offset.store.path", "offset.store.sync.interval.ms"), _NO_OFFSETS),
    "rebalance.cb": NO_CALLBACKS,
    "rebalance.timeout.ms": f"no rebalance waits for a member; {_LEAVE}",
    "topic.blacklist": BY_NAME,
    "where": "each record is delivered, to be decided; filter the batch, whose other rows are accepted with it",
}
"""Settings, and arguments of a `Consumer`, that have another replacement where the client is a `ShareConsumer`."""
