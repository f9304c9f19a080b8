"""Keys and values as typed columns: JSON, Avro and Protobuf, their schemas and the schema registry."""
