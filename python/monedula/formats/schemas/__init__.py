"""Schemas of typed columns, converted from other libraries' forms. `monedula.infer` infers one from a topic's records.

    from monedula.formats.schemas import schema_of

    schema_of("id bigint, items array<struct<price:decimal(10,2)>>")  # a pyarrow.Schema

Everything here needs pyarrow.
"""

from monedula.formats.schemas.ddl import ddl_of
from monedula.formats.schemas.inference import Inference
from monedula.formats.schemas.sources import schema_of

__all__ = ["Inference", "ddl_of", "schema_of"]
