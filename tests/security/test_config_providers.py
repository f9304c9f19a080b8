"""Config providers (KIP-297, KIP-421): values of settings that stand in the environment or in files."""

import traceback
from collections.abc import Callable
from pathlib import Path

import monedula
import pytest
from monedula._config.properties import properties
from monedula._config.providers import ALLOWED_VARIABLE, resolved
from monedula.cli.failures import UsageError
from monedula.cli.settings import settings_of

SECRET = "canary-9f3a"
CLASSES = "org.apache.kafka.common.config.provider."


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A properties file."""
    file = tmp_path / "kafka.properties"
    file.write_text(f"# of the cluster\npassword={SECRET}\nuser: anna\n")
    return file


def value(text: str, **providers: str) -> str:
    """What a setting becomes."""
    own = [(f"config.providers{name}", given) for name, given in providers.items()]
    ((_, found),) = resolved([*own, ("sasl.password", text)])
    return found


def all_providers(text: str) -> str:
    """Likewise, with all providers."""
    return value(text, **{"": "env,file,directory"})


def test_a_variable_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    assert all_providers("${env:KAFKA_PASSWORD}") == SECRET


def test_an_entry_of_a_file(secrets: Path) -> None:
    assert all_providers(f"${{file:{secrets}:password}}") == SECRET


@pytest.mark.parametrize("name", ["dir", "directory"])
def test_a_file_of_a_directory_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "token").write_text(f" {SECRET}\n")
    assert value(f"${{{name}:{tmp_path}:token}}", **{"": name}) == f" {SECRET}\n"


def test_several_variables_in_a_text(secrets: Path) -> None:
    line = f'PlainLoginModule required username="${{file:{secrets}:user}}" password="${{file:{secrets}:password}}";'
    assert all_providers(line) == f'PlainLoginModule required username="anna" password="{SECRET}";'


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, r"config\.providers is not set.* Set config\.providers=env "),
        ({"config.providers": "file"}, r"config\.providers does not name env.* Set config\.providers=file,env "),
    ],
)
@pytest.mark.parametrize("text", ["${env:KAFKA_PASSWORD}", "a${env:KAFKA_PASSWORD}b"])
def test_a_variable_of_a_provider_that_is_not_named_is_refused(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], says: str, text: str
) -> None:
    """Otherwise the text would go out as the password."""
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    with pytest.raises(monedula.ConfigError, match=says) as raised:
        resolved([*settings.items(), ("sasl.password", text)])
    assert raised.value.key == "config.providers"
    assert str(raised.value).startswith("sasl.password: ")
    assert "KAFKA_PASSWORD" not in str(raised.value)


def test_an_empty_list_of_providers_takes_values_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    assert value("${env:KAFKA_PASSWORD}", **{"": ""}) == "${env:KAFKA_PASSWORD}"


@pytest.mark.parametrize("text", ["${HOME}", "${vault:secret/kafka:password}", "${", "$env:HOME"])
def test_other_text_with_a_dollar_is_taken_as_it_is(text: str) -> None:
    assert resolved([("sasl.password", text)]) == [("sasl.password", text)]
    assert all_providers(text) == text


def test_what_a_variable_stands_for_is_not_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "${env:HOME}")
    assert all_providers("${env:KAFKA_PASSWORD}") == "${env:HOME}"


def test_a_provider_is_named_as_in_java(secrets: Path) -> None:
    providers = {"": "secrets", ".secrets.class": f"{CLASSES}FileConfigProvider"}
    assert value(f"${{secrets:{secrets}:password}}", **providers) == SECRET


def test_names_with_underscores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    settings = [("config_providers", "env"), ("sasl_password", "${env:KAFKA_PASSWORD}")]
    assert resolved(settings) == [("sasl_password", SECRET)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${env:MONEDULA_NOT_SET}", "this process has no environment variable MONEDULA_NOT_SET"),
        ("${file:/nonexistent:password}", "/nonexistent cannot be read: No such file or directory"),
        ("${file:FILE:passwort}", "has no entry passwort"),
        ("${file:password}", "a path is missing: it is ${file:PATH:KEY}"),
        ("${directory:/etc:../etc/passwd}", "'../etc/passwd' is not the name of a file"),
    ],
)
def test_a_variable_without_a_value_is_an_error(secrets: Path, text: str, says: str) -> None:
    with pytest.raises(monedula.ConfigError) as raised:
        all_providers(text.replace("FILE", str(secrets)))
    assert says in str(raised.value)
    assert raised.value.key == "sasl.password"


@pytest.mark.parametrize(
    ("providers", "says"),
    [
        ({"": "vault"}, "'vault' is none of env, file, directory"),
        ({"": "env", ".env.class": "com.example.Mine"}, "no class of Java is loaded"),
        ({"": "env", ".env.param.pattern": "x"}, "has the parameter allowlist.pattern alone"),
        ({"": "env", ".file.param.allowed.paths": "/"}, "for a NAME of config.providers"),
        ({".env.class": "x"}, "config.providers must name the provider"),
        ({"": "env", ".env.param.allowlist.pattern": "("}, "not a regular expression"),
    ],
)
def test_a_provider_that_cannot_be_is_an_error(providers: dict[str, str], says: str) -> None:
    with pytest.raises(monedula.ConfigError) as raised:
        value("x", **providers)
    assert says in str(raised.value)
    assert str(raised.value.key).startswith("config.providers")


def test_paths_outside_of_those_allowed_are_refused(secrets: Path, tmp_path: Path) -> None:
    allowed = {"": "file", ".file.param.allowed.paths": f"/nonexistent, {tmp_path}"}
    assert value(f"${{file:{secrets}:password}}", **allowed) == SECRET
    for path in (f"{tmp_path}/../x", f"{tmp_path}x/kafka.properties", "/etc/passwd"):
        with pytest.raises(monedula.ConfigError, match=r"allowed\.paths does not allow"):
            value(f"${{file:{path}:password}}", **allowed)


def test_variables_outside_of_those_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    allowed = {"": "env", ".env.param.allowlist.pattern": "KAFKA_.*"}
    assert value("${env:KAFKA_PASSWORD}", **allowed) == SECRET
    with pytest.raises(monedula.ConfigError, match="does not allow the variable HOME"):
        value("${env:HOME}", **allowed)


@pytest.mark.parametrize("allowed", ["none", "env"])
def test_the_owner_of_a_process_has_the_last_word(monkeypatch: pytest.MonkeyPatch, secrets: Path, allowed: str) -> None:
    monkeypatch.setenv(ALLOWED_VARIABLE, allowed)
    with pytest.raises(monedula.ConfigError, match="does not allow the provider file"):
        value(f"${{file:{secrets}:password}}", **{"": "file"})


@pytest.mark.parametrize(
    "make",
    [
        lambda settings: monedula.Consumer(settings).close(),
        lambda settings: monedula.Consumer(**{key.replace(".", "_"): value for key, value in settings.items()}).close(),
        lambda settings: monedula.Producer(settings).close(),
        lambda settings: monedula.Admin(settings).close(),
    ],
    ids=["consumer", "keywords", "producer", "admin"],
)
def test_every_client_looks_values_up(monkeypatch: pytest.MonkeyPatch, make: Callable[[dict[str, str]], None]) -> None:
    monkeypatch.setenv("MY_CLIENT", "x" * 10)
    settings = {"bootstrap.servers": "localhost:1", "config.providers": "env", "retry.backoff.ms": "${env:MY_CLIENT}"}
    with pytest.raises(monedula.ConfigError, match=r'"xxxxxxxxxx": expected a whole number'):
        make(settings)


def test_a_read_looks_values_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_BROKERS", "not an address")
    with pytest.raises(monedula.ConfigError, match="not an address"):
        monedula.read({"bootstrap.servers": "${env:MY_BROKERS}", "config.providers": "env"}, "orders")


@pytest.mark.parametrize(
    "make",
    [
        lambda settings: monedula.Consumer(settings),
        lambda settings: monedula.Consumer(None, **{key.replace(".", "_"): value for key, value in settings.items()}),
        lambda settings: monedula.AsyncConsumer(settings),
        lambda settings: monedula.Producer(settings),
        lambda settings: monedula.AsyncProducer(settings),
        lambda settings: monedula.Admin(settings),
        lambda settings: monedula.AsyncAdmin(settings),
        lambda settings: monedula.read(settings, "orders"),
        lambda settings: monedula.read_range(settings, "orders", 0, 0, 1),
    ],
    ids=[
        "consumer",
        "keywords",
        "async consumer",
        "producer",
        "async producer",
        "admin",
        "async admin",
        "read",
        "range",
    ],
)
@pytest.mark.parametrize(
    "wrong",
    [{"retry.backoff.ms": "x"}, {"retry.backoff.ms": object()}, {"config.providers": "vault"}, {"no.such.key": "x"}],
    ids=["value", "type", "provider", "key"],
)
def test_no_frame_of_an_error_has_a_value_of_a_setting(
    make: Callable[[dict[str, object]], object], wrong: dict[str, object]
) -> None:
    settings = {"bootstrap.servers": "localhost:1", "client.id": SECRET, **wrong}
    with pytest.raises(monedula.ConfigError) as raised:
        make(settings)
    shown = shown_by_frames(raised.value)
    assert "python/monedula" in shown or "site-packages/monedula" in shown
    assert SECRET not in shown


def shown_by_frames(error: BaseException) -> str:
    """The locals of each frame of our package, as tools show them that show locals."""
    found = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in found.stack if "monedula/" in frame.filename and "/tests/" not in frame.filename]
    return "\n".join([str(error), *(f"{frame.filename}: {frame.locals}" for frame in frames)])


@pytest.mark.parametrize(
    "key", ["sasl.password", "ssl_key_password", "sasl.jaas.config", "ssl.keystore.key", "sasl.pasword"]
)
def test_a_command_takes_no_secret_as_an_argument(key: str) -> None:
    with pytest.raises(UsageError) as raised:
        settings_of(None, [f"{key}={SECRET}"], None)
    assert key in str(raised.value)
    assert SECRET not in str(raised.value)
    variable = f"{key}=${{env:KAFKA_PASSWORD}}"
    assert settings_of("localhost:1", [variable], None)[key] == "${env:KAFKA_PASSWORD}"


def test_a_command_reads_secrets_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(f"bootstrap.servers=localhost:1\nsasl.password={SECRET} \n")
    found = settings_of(None, None, file)
    assert (found["bootstrap.servers"], found["sasl.password"]) == ("localhost:1", f"{SECRET} ")
    file.write_text(f"sasl.username=anna\n{SECRET}\n")
    with pytest.raises(UsageError, match="line 2: expected key=value") as raised:
        settings_of(None, None, file)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# a=1\n! b=2\n\n  c=3\r\nd=4\re=5", {"c": "3", "d": "4", "e": "5"}),
        ("a=1\\\n  2\\\n  3\nb=x\\\\\nc=y", {"a": "123", "b": "x\\", "c": "y"}),
        ("a\\:b\\=c\\ d=e", {"a:b=c d": "e"}),
        ("a=\\u00e4\\t\\n\\x\\\\\nb=\\ud83d\\ude00", {"a": "ä\t\nx\\", "b": "😀"}),
        ("a= b c  ", {"a": "b c  "}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a\nb=\n=c", {"a": "", "b": "", "": "c"}),
        ("a=#1", {"a": "#1"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_properties_files_are_read_as_java_reads_them(text: str, entries: dict[str, str]) -> None:
    assert {entry.key: entry.value for entry in properties(text)} == entries


def test_a_wrong_escape_is_an_error_that_does_not_show_the_line() -> None:
    with pytest.raises(ValueError, match=r"^line 2: four hexadecimal digits must follow \\u$"):
        list(properties("a=1\nb=\\u12g4"))
