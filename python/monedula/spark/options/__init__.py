"""The common parts of the options of source and sink: texts of values, settings of Kafka, columns, and wording."""
