"""The registry's file in a data directory: all that it remembers, written anew after each change."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from monedula.errors import BrokerStartError
from monedula.testing.registry import names
from monedula.testing.registry.definition import Definition, references_of
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.schemas import parsed
from monedula.testing.registry.store import Context, Store, Version

FILE = "schema-registry.json"

_FORM = 1


def save(store: Store, file: Path) -> None:
    """Write everything to a file, which is there as before or as after at any moment."""
    told = {
        "form": _FORM,
        "last_ids": {name: context.last_id for name, context in store.contexts.items()},
        "versions": [_version(version) for version in store.all_versions()],
        "configs": store.configs,
        "modes": store.modes,
        "associations": store.associations,
    }
    new = file.with_suffix(".new")
    new.write_text(json.dumps(told, ensure_ascii=False))
    new.replace(file)


def _version(version: Version) -> dict[str, Any]:
    definition = version.definition
    formatted = getattr(definition.parsed, "formatted", None)
    serialized = formatted("serialized") if formatted else None
    told = {**version.to_json(), "schemaType": definition.kind, "deleted": version.is_deleted}
    return told if serialized is None else {**told, "serialized": serialized}


def load(file: Path) -> Store:
    """Read a file; an empty store if there is none."""
    store = Store()
    try:
        told = json.loads(file.read_text())
        if told["form"] != _FORM:
            raise ValueError(f"its form is {told['form']}, and {_FORM} is expected")
        store.configs, store.modes = dict(told["configs"]), dict(told["modes"])
        store.associations = list(told.get("associations", ()))
        if "" not in store.configs or "" not in store.modes:
            raise ValueError("it has no level or mode of all subjects")
        for name, last in told["last_ids"].items():
            store.contexts.setdefault(name, Context()).last_id = last
        for each in told["versions"]:
            _add(store, each)
        _parse_all(store, told["versions"])
    except FileNotFoundError:
        return Store()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ApiError) as error:
        advice = "remove the file to begin with an empty registry"
        raise BrokerStartError(f"the registry cannot read {file}: {type(error).__name__}: {error}; {advice}") from None
    return store


def _add(store: Store, told: dict[str, Any]) -> None:
    extra: dict[str, Any] = {name: told[name] for name in ("metadata", "ruleSet") if name in told}
    definition = Definition(told["schemaType"], told["schema"], references_of(told), extra)
    version = Version(told["subject"], told["version"], told["id"], definition, told["deleted"])
    store.subjects.setdefault(version.subject, {})[version.number] = version
    context = store.contexts[names.split(version.subject)[0]]
    context.definitions[version.id] = definition
    context.ids.setdefault(definition.identity, version.id)


def _parse_all(store: Store, told: list[dict[str, Any]]) -> None:
    for each in told:
        version = store.subjects[each["subject"]][each["version"]]
        definition = version.definition
        text = each.get("serialized", definition.text)
        version.definition = replace(
            definition, parsed=parsed(store, version.subject, definition.kind, text, definition.references)
        )
        store.contexts[names.split(version.subject)[0]].definitions[version.id] = version.definition
