"""What the options of the source and of the sink share: texts of values, settings of Kafka, columns, and wording."""
