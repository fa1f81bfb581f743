"""A newcomer's typing mistakes must be answered with the key, the value and the nearest valid name."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestai.config import load_config, read
from orchestai.config.section import as_yaml
from orchestai.errors import UserError

MINIMAL = """
workers:
  pool:
    search: {kind: tool, tool: stdlib_search, card: finds functions}
    sums: {kind: tool, tool: calculator, card: does sums}
  cascade: [search]
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(MINIMAL)
    return file


def test_the_repository_config_loads_and_survives_a_round_trip(tmp_path, repository):
    config = load_config(repository / "config.yaml")
    (copy := tmp_path / "copy.yaml").write_text(config.to_yaml())
    assert load_config(copy) == config


def test_a_pool_that_says_nothing_of_training_learns_as_the_repository_does(path, repository):
    ours, stranger = (load_config(file).training.phase2_rl for file in (repository / "config.yaml", path))
    assert (ours.learning_rate, ours.lr_schedule) == (stranger.learning_rate, stranger.lr_schedule) == (6e-3, "linear")
    assert load_config(path, ["planner.kind=language"]).training.phase2_rl.learning_rate < 1e-4


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("training.phase1_supervised.lambda_dga=0.5", ["supervised.lambda_dga", "0.5", "did you mean 'lambda_dag'"]),
        ("training.phase2_rl.algorithm=GRP", ["training.phase2_rl.algorithm", "'GRP'", "did you mean 'GRPO'"]),
        ("training.phase1_supervised.batch_size=many", ["training.phase1_supervised.batch_size", "'many'", "integer"]),
        ("workers.cascade=[serch]", ["workers.cascade.0", "'serch'", "did you mean 'search'"]),
        ("workers.pool.new.kind=tool", ["workers.pool.new.card", "missing"]),
        ("no_equals_sign", ["no_equals_sign", "section.key=value"]),
    ],
)
def test_a_wrong_override_is_refused_with_its_path_value_and_fix(path, override, parts):
    with pytest.raises(UserError) as error:
        load_config(path, [override])
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "workers: {pool: {}}\n", "\t", "x: ${nowhere}\n", ""])
def test_a_broken_file_is_refused_in_one_line(path, text):
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_config(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=30))
@example("[x=")
def test_no_override_text_ever_crashes(repository, text):
    try:
        load_config(repository / "config.yaml", [text])
    except UserError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "https://me:pass-word@host/v1",
        "https://pass-word@host",
        "http://[pass-word",
    ],
)
@pytest.mark.parametrize(
    "where",
    [
        "workers.models.m.base_url",
        "workers.mcp_servers.s.url",
        "planner.language.vllm.base_url",
    ],
)
def test_no_url_holds_a_secret_since_urls_are_saved_and_logged(path, where, url):
    model = ["workers.models.m.kind=openai_api", "workers.models.m.name=n"] if "models" in where else []
    with pytest.raises(UserError, match="URL") as refused:
        load_config(path, [*model, f"{where}={url}"])
    assert "pass-word" not in str(refused.value)


def test_no_secret_of_the_environment_is_written_into_saved_configurations(path, monkeypatch):
    monkeypatch.setenv("TEAM_API_KEY", "pass-word")
    monkeypatch.setenv("DATA", "elsewhere")
    with pytest.raises(UserError, match=r"oc.env:TEAM_API_KEY.*saved") as refused:
        load_config(path, ["workers.pool.sums.card=${oc.env:TEAM_API_KEY}"])
    assert "pass-word" not in str(refused.value)
    assert load_config(path, ["workers.pool.sums.card=${oc.env:DATA}"]).workers.pool["sums"].card == "elsewhere"


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["\\", "${", "$", "}", "oc.env:HOME", "oc.env:API_KEY", "a", ": ", "\n"]), max_size=8).map(
        "".join
    )
)
@example("\\${oc.env:HOME}")
@example("???")
def test_what_is_loaded_is_what_was_written(tmp_path_factory, text):
    """Cards and names come from others, whose interpolations would read this machine's environment."""
    path = tmp_path_factory.getbasetemp() / "written.yaml"
    raw = {"a": {f"key {text}": [text, {"card": text}], "b": 1.5, "c": None}}
    path.write_text(as_yaml(raw))
    assert read(path) == raw
