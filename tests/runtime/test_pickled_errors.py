"""Errors get from one process to another: a pool that receives one that cannot be made again hangs."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import monedula
import pytest
from monedula import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KafkaError)]


def make(kind: type[errors.KafkaError]) -> errors.KafkaError:
    if kind is monedula.errors.AdminErrors:
        return monedula.errors.AdminErrors(
            {"orders": 1}, {"returns": monedula.errors.TopicExistsError("there", topic="returns")}
        )
    return kind("told")


def shown(value: Any) -> Any:
    """What errors hold, errors in it by their texts: two of them are never equal."""
    return {key: shown(item) for key, item in value.items()} if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_made_again_as_it_was(
    kind: type[errors.KafkaError], again: Callable[[errors.KafkaError], errors.KafkaError]
) -> None:
    error = make(kind)
    error.topic, error.offset = "orders", 7
    error.add_note("while copying")
    made = again(error)
    assert type(made) is kind
    assert (str(made), made.args, shown(vars(made))) == (str(error), error.args, shown(vars(error)))


@pytest.mark.parametrize("again", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize(
    "kind",
    [
        monedula.Consumer,
        monedula.AsyncConsumer,
        monedula.Producer,
        monedula.AsyncProducer,
        monedula.Admin,
        monedula.AsyncAdmin,
    ],
)
def test_a_client_says_that_it_belongs_to_its_process(kind: Any, again: Callable[[Any], object]) -> None:
    """A copy would be a second object over the same core, which knows half of what the first one does."""
    client = kind(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(TypeError, match=f"{kind.__name__}: it can be neither pickled nor copied: its connections"):
        again(client)
