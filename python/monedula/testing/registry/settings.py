"""Routes of levels (`/config`) and modes (`/mode`)."""

from typing import Any

from monedula.testing.registry.checking import LEVELS
from monedula.testing.registry.errors import ApiError, not_permitted
from monedula.testing.registry.requests import Request
from monedula.testing.registry.store import Store

_VALID = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
_MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")


def get_config(store: Store, request: Request) -> dict[str, Any]:
    """GET /config and /config/*."""
    own = store.configs.get(request.scope)
    if own is None and (request.scope.endswith(":") or request.flag("defaultToGlobal")):
        own = {"compatibilityLevel": store.config(request.scope, "compatibilityLevel")}
    if own is None:
        told = f"Subject '{request.scope}' does not have subject-level compatibility configured"
        raise ApiError(40408, told)
    return own


def set_config(store: Store, request: Request) -> dict[str, Any]:
    """PUT /config and /config/*: a level, and whether schemas are normalized."""
    given = {name: value for name, value in request.fields.items() if value is not None}
    others = sorted(given.keys() - {"compatibility", "normalize"})
    if others:
        raise ApiError(422, f"the embedded registry has compatibility and normalize; not {', '.join(others)}")
    if not given:
        raise ApiError(42203, f"Invalid compatibility level. Valid values are {_VALID}")
    changed: dict[str, Any] = {}
    if "compatibility" in given:
        level = str(given["compatibility"]).upper()
        if level not in LEVELS:
            raise ApiError(42203, f"Invalid compatibility level. Valid values are {_VALID}")
        changed["compatibilityLevel"] = level
    if "normalize" in given:
        if not isinstance(given["normalize"], bool):
            raise ApiError(422, "normalize is true or false")
        changed["normalize"] = given["normalize"]
    store.configs[request.scope] = {**store.configs.get(request.scope, {}), **changed}
    return dict(given)


def delete_config(store: Store, request: Request) -> dict[str, Any]:
    """DELETE /config and /config/*: what is inherited counts again."""
    if request.scope == "":
        before, store.configs[""] = store.configs[""], {"compatibilityLevel": "BACKWARD"}
        return before
    before_or_none = store.configs.pop(request.scope, None)
    if before_or_none is None:
        told = f"Subject '{request.scope}' does not have subject-level compatibility configured"
        raise ApiError(40408, told)
    return before_or_none


def get_mode(store: Store, request: Request) -> dict[str, str]:
    """GET /mode and /mode/*."""
    own = store.modes.get(request.scope)
    if own is None and (request.scope.endswith(":") or request.flag("defaultToGlobal")):
        own = store.mode(request.scope)
    if own is None:
        raise ApiError(40409, f"Subject '{request.scope}' does not have subject-level mode configured")
    return {"mode": own}


def set_mode(store: Store, request: Request) -> dict[str, str]:
    """PUT /mode and /mode/*."""
    mode = str(request.fields.get("mode")).upper()
    if mode not in _MODES:
        told = "READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, and FORWARD"
        raise ApiError(42204, f"Invalid mode. Valid values are {told}")
    if mode == "FORWARD":
        raise not_permitted("The embedded registry forwards to no other one")
    if mode == "IMPORT" and store.mode(request.scope) != "IMPORT" and not request.flag("force"):
        scope = request.scope
        within = [
            each
            for each in store.names()
            if each == scope or not scope or (scope[-1:] == ":" and each.startswith(scope))
        ]
        if within:
            raise not_permitted("Cannot import since found existing subjects")
    store.modes[request.scope] = mode
    return {"mode": mode}


def delete_mode(store: Store, request: Request) -> dict[str, str]:
    """DELETE /mode/*: what is inherited counts again."""
    if request.scope == "":
        before, store.modes[""] = store.modes[""], "READWRITE"
        return {"mode": before}
    own = store.modes.pop(request.scope, None)
    if own is None:
        raise ApiError(40409, f"Subject '{request.scope}' does not have subject-level mode configured")
    return {"mode": own}
