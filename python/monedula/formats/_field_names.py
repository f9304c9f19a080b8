"""`field_names`: the names of the fields that keys or values are decoded to, as Arrow's C data interface has them.

`ColumnSpec.fields` are texts for a `repr`, whose names and types cannot be told apart: a name may have any characters.
"""

import ctypes

from monedula._monedula import ColumnSpec


class _ArrowSchema(ctypes.Structure):
    """`struct ArrowSchema`, whose layout is fixed by the C data interface."""


_ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowSchema))),
    ("dictionary", ctypes.POINTER(_ArrowSchema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_STRUCT = b"+s"


def field_names(spec: ColumnSpec) -> list[str]:
    """Names of the fields in their order; none if keys or values are no structs."""
    capsule = spec.decode([]).schema.__arrow_c_schema__()
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = _ArrowSchema.from_address(pointer_of(capsule, b"arrow_schema"))
    column = table.children[0].contents
    if column.format != _STRUCT:
        return []
    # Copied while the capsule lives, which owns them.
    return [column.children[place].contents.name.decode() for place in range(column.n_children)]
