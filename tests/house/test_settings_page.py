"""docs/settings.md against the client's own table of settings."""

import re

import monedula

from tests.house.settings_page import PAGE, is_number, rendered, unit_of


def test_the_page_is_the_clients_table() -> None:
    assert PAGE.read_text() == rendered(), "write it anew: python -m tests.house.settings_page"


def test_every_setting_and_every_alias_has_its_row() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), flags=re.MULTILINE)
    told = sorted(name for row in rows for name in re.findall(r"`([\w.]+)`", row))
    assert told == sorted(name for key in monedula.config_keys() for name in (key.name, *key.aliases))


def test_every_number_has_a_unit() -> None:
    assert [key.name for key in monedula.config_keys() if is_number(key) and unit_of(key.name) is None] == []
