"""Everything that the registry remembers: schemas by id, versions of subjects, levels and modes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from monedula.testing.registry import names
from monedula.testing.registry.definition import Definition, Reference
from monedula.testing.registry.errors import ApiError, no_subject, no_version

LATEST = -1


@dataclass(slots=True)
class Version:
    """A version of a subject."""

    subject: str
    number: int
    id: int
    definition: Definition
    is_deleted: bool = False

    def to_json(self) -> dict[str, Any]:
        """As Confluent's API has it."""
        told = {"subject": self.subject, "version": self.number, "id": self.id, "guid": self.definition.guid}
        return {**told, **self.definition.to_json()}


@dataclass(slots=True)
class Context:
    """Ids are unique in a context, and begin at 1 in each."""

    definitions: dict[int, Definition] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    last_id: int = 0

    def keep(self, definition: Definition, given: int | None = None) -> int:
        """The id of a definition: the one that it has, the given one, or the next."""
        known = self.ids.get(definition.identity)
        if known is not None and given in (None, known):
            return known
        number = self.last_id + 1 if given is None else given
        there = self.definitions.get(number)
        if there is not None and there.identity != definition.identity:
            raise ApiError(42205, f"Overwrite new schema with id {number} is not permitted.")
        self.definitions[number] = definition
        self.ids.setdefault(definition.identity, number)
        self.last_id = max(self.last_id, number)
        return number

    def forget(self, number: int) -> None:
        """Forget an id of which no version is left. It is not given again."""
        definition = self.definitions.pop(number)
        if self.ids.get(definition.identity) == number:
            del self.ids[definition.identity]


class Store:
    """Everything registered. Every call comes with the registry's lock held."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {names.DEFAULT: Context()}
        self.subjects: dict[str, dict[int, Version]] = {}
        self.configs: dict[str, dict[str, Any]] = {"": {"compatibilityLevel": "BACKWARD"}}
        self.modes: dict[str, str] = {"": "READWRITE"}
        self.associations: list[dict[str, Any]] = []

    # Subjects

    def names(self, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """The subjects, sorted: those with a version that counts."""
        return [subject for subject in sorted(self.subjects) if self._counts(subject, deleted, deleted_only)]

    def _counts(self, subject: str, deleted: bool, deleted_only: bool) -> bool:
        is_there = any(not version.is_deleted for version in self.subjects[subject].values())
        return not is_there if deleted_only else is_there or deleted

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject, the oldest first; of an unknown subject none."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].is_deleted]

    def known(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """As `versions`."""
        found = self.versions(subject, deleted=deleted)
        if not found:
            raise no_subject(subject)
        return found

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """A version of a subject."""
        found = self.known(subject, deleted=deleted)
        if number == LATEST:
            return found[-1]
        for version in found:
            if version.number == number:
                return version
        raise no_version(number)

    def add(self, subject: str, definition: Definition, id: int | None, number: int | None) -> Version:  # noqa: A002
        """Add a version with a definition: the next, or the given one."""
        context = self.contexts.setdefault(names.split(subject)[0], Context())
        versions = self.subjects.get(subject, {})
        if number is None:
            number = max(versions, default=0) + 1
        version = Version(subject, number, context.keep(definition, id), definition)
        self.subjects.setdefault(subject, versions)[number] = version
        return version

    def remove(self, version: Version) -> None:
        """Remove a version for good, and its schema if it was the last with it."""
        del self.subjects[version.subject][version.number]
        if not self.subjects[version.subject]:
            del self.subjects[version.subject]
        context = names.split(version.subject)[0]
        if not any(each.id == version.id for each in self.all_versions(context)):
            self.contexts[context].forget(version.id)

    def all_versions(self, context: str | None = None) -> Iterator[Version]:
        """All versions, also deleted ones, of a context or of all."""
        for subject in sorted(self.subjects):
            if context in (None, names.split(subject)[0]):
                yield from self.versions(subject, deleted=True)

    # References

    def referred(self, subject: str, reference: Reference) -> Version:
        """The version that a reference of a schema of this subject means; also one that was deleted softly."""
        return self.version(names.within(names.split(subject)[0], reference.subject), reference.version, deleted=True)

    def referring(self, version: Version) -> list[Version]:
        """The versions that refer to this one, and are not deleted."""

        def refers(other: Version) -> bool:
            context = names.split(other.subject)[0]
            meant = (version.subject, version.number)
            return any(
                (names.within(context, each.subject), each.version) == meant for each in other.definition.references
            )

        return [other for other in self.all_versions() if not other.is_deleted and refers(other)]

    # Levels and modes

    def inherited(self, subject: str, of: Callable[[str], Any]) -> Any:
        """The value that is set for a subject, for its context, or for all."""
        context, _ = names.split(subject)
        for scope in (subject, f":{context}:", ""):
            found = of(scope)
            if found is not None:
                return found
        return None

    def mode(self, subject: str) -> str:
        """The mode in which a subject is."""
        return str(self.inherited(subject, self.modes.get))

    def config(self, subject: str, name: str) -> Any:
        """The value of a subject's configuration, or the inherited one."""
        return self.inherited(subject, lambda scope: self.configs.get(scope, {}).get(name))
