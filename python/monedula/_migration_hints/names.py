"""Importable names of other clients, and what to import here."""

_POSITION = "a position is {}, in assign({{('orders', 0): {}}}) and in seek(('orders', 0), {})"
_CALLBACKS = "subscribe(topics, on_assigned=f, on_revoked=f, on_lost=f) takes functions"
_BYTES = "keys and values are bytes, or as value=monedula.Json(), Avro(schema) or Protobuf(schema) says"
_DECODES = "Consumer({{..., 'schema.registry.url': url}}, value=monedula.{}) decodes"
_ENCODES = "Producer({{..., 'schema.registry.url': url}}, value=monedula.{}) encodes"
_FORMATS = {"Avro": "Avro(schema)", "JSON": "Json(schema, framing='confluent')", "Protobuf": "Protobuf(schema)"}
_PART = "value= and key= of Producer and Consumer say which of both is encoded, and the topic is that of the record"
_METADATA = "Admin(settings).describe_topics(topic) and describe_cluster() return plain objects"


def _position(text: str) -> str:
    return _POSITION.format(text, text, text)


NAMES: dict[str, str] = {
    "AIOConsumer": "monedula.AsyncConsumer",
    "AIOKafkaAdminClient": "monedula.AsyncAdmin",
    "AIOKafkaClient": "monedula.AsyncAdmin",
    "AIOKafkaConsumer": "monedula.AsyncConsumer",
    "AIOKafkaProducer": "monedula.AsyncProducer",
    "AIOProducer": "monedula.AsyncProducer",
    "AdminClient": "monedula.Admin",
    "AsyncConsumerRebalanceListener": _CALLBACKS,
    "ConsumerGroupMetadata": "consumer.group_metadata()",
    "ConsumerGroupState": "the state of a group is a text, such as 'Stable'",
    "ConsumerGroupTopicPartitions": "Admin(settings).list_group_offsets(group)",
    "ConsumerGroupType": "the type of a group is a text, such as 'consumer'",
    "ConsumerRebalanceListener": _CALLBACKS,
    "ConsumerRecord": "monedula.Record",
    "ConsumerStoppedError": "monedula.errors.ClosedError",
    "DefaultSerializer": _BYTES,
    "Deserializer": _BYTES,
    "DeserializingConsumer": "monedula.Consumer; value=monedula.Avro(schema), Json or Protobuf decodes values",
    "ElectionType": "Admin(settings).elect_leaders(...) takes a text",
    "IllegalOperation": "monedula.ArgumentError",
    "IllegalStateException": "monedula.ArgumentError",
    "IsolationLevel": "the setting isolation.level is 'read_committed' or 'read_uncommitted'",
    "JsonSerializer": _BYTES,
    "KafkaAdminClient": "monedula.Admin",
    "KafkaConsumer": "monedula.Consumer",
    "KafkaException": "monedula.KafkaError is the base of all errors",
    "KafkaProducer": "monedula.Producer",
    "KafkaShareConsumer": "monedula.ShareConsumer",
    "Message": "monedula.Record",
    "MessageField": _PART,
    "Messages": "monedula.Batch",
    "NoBrokersAvailable": "monedula.errors.BrokerConnectionError",
    "OFFSET_BEGINNING": _position("'earliest'"),
    "OFFSET_END": _position("'latest'"),
    "OFFSET_INVALID": "None stands for an offset that is not there",
    "OFFSET_STORED": _position("'committed'"),
    "OffsetSpec": "Admin(settings).list_offsets(...) takes positions: 'earliest', 'latest', a time",
    "SchemaRegistryClient": "monedula.SchemaRegistry({'schema.registry.url': url})",
    "SerializationContext": _PART,
    "Serializer": _BYTES,
    "SerializingProducer": "monedula.Producer; value=monedula.Avro(schema), Json or Protobuf encodes values",
    "StringDeserializer": _BYTES,
    "StringSerializer": _BYTES,
    "TopicCollection": "Admin(settings).describe_topics('orders', 'payments') takes names",
    "TopicPartitionInfo": _METADATA,
    **{f"{name}Deserializer": _DECODES.format(form) for name, form in _FORMATS.items()},
    **{f"{name}Serializer": _ENCODES.format(form) for name, form in _FORMATS.items()},
    "AcknowledgeType": "accept(), release() and reject() of a monedula.ShareConsumer",
    "DeserializingShareConsumer": "monedula.ShareConsumer; value=monedula.Avro(schema), Json or Protobuf decodes",
    **dict.fromkeys(
        ("TIMESTAMP_CREATE_TIME", "TIMESTAMP_LOG_APPEND_TIME", "TIMESTAMP_NOT_AVAILABLE"),
        "record.timestamp_type is 0 for CreateTime, 1 for LogAppendTime, -1 for none",
    ),
    "ConcurrentModificationException": "methods of a consumer may be called from any thread",
    "ThrottleEvent": "throttling is in metrics() and in the log, as the event throttled",
    "Uuid": "ids are texts",
}
