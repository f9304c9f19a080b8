"""Records per second from values of Kafka to typed Arrow columns, and from typed columns to values, beside other ways.

A module for each format: `python benches/typed/json_values.py`, `avro_values.py`, `protobuf_values.py`, and
`writing.py`. Each has what its readers read in an embedded broker, in a process of its own; the readers take turns on
the same cores, each in a process of its own. Each proves what it read by the number of rows and the sum of a column.
"""
