"""Schemas of typed columns: from the forms that others have, and from the records of a topic.

    from monedula.formats.schemas import infer, schema_of

    schema_of("id bigint, items array<struct<price:decimal(10,2)>>")  # a pyarrow.Schema
    infer({"bootstrap.servers": "localhost:9092"}, "orders").ddl

Everything here needs pyarrow.
"""

from monedula.formats.schemas.ddl import ddl_of
from monedula.formats.schemas.inference import Inference
from monedula.formats.schemas.sampling import BadRecord, InferredSchema, infer
from monedula.formats.schemas.sources import schema_of

__all__ = ["BadRecord", "Inference", "InferredSchema", "ddl_of", "infer", "schema_of"]
