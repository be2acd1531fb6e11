"""Headers name secrets and never hold them."""

from __future__ import annotations

import pytest

from memalign.errors import ConfigurationError, InputError
from memalign.models.judge_models import checked_headers, filled_headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Team": "support"},
        {"X-Tenant": "0b6f2c9e-5c1d-4c55-9a5e-0d8a6c1b2f3e"},
        {"HTTP-Referer": "https://example.org/judges?page=2"},
        {"Authorization": "Bearer $MEMALIGN_HEADER_TEAM_KEY"},
        {"api-key": "$MEMALIGN_HEADER_AZURE_KEY"},
    ],
)
def test_headers_without_secrets_are_kept_unchanged(headers):
    assert checked_headers(headers) == headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer abc123secret"},
        {"Authorization": "Basic dXNlcjpwYXNzd29yZA=="},
        {"authorization": "abc123secret"},
        {"X-Api-Key": "abc123secret"},
        {"x-goog-api-key": "abc123secret$MEMALIGN_HEADER_KEY"},
        {"Cookie": "session=abc123secret"},
        {"X-Auth-Token": "abc123secret"},
        {"X-Custom": "Bearer abc123secret"},
        {"X-Custom": "sk-abc123secret"},
        {"X-Custom": "eyJhbGciOiJIUzI1NiJ9abc123secret"},
    ],
)
def test_a_secret_is_refused_and_not_repeated(headers):
    with pytest.raises(
        InputError, match=r"secret would be stored .* in single quotes: '.*: Bearer \$MEMALIGN_HEADER_KEY'"
    ) as caught:
        checked_headers(headers)
    assert "abc123secret" not in str(caught.value)
    assert "dXNlcjpwYXNzd29yZA" not in str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        {"": "x"},
        {"X Team": "x"},
        {"X-Team:": "x"},
        {"X-Team": ""},
        {"X-Team": "a\r\nX-Other: b"},
        {"X-Team": "größe"},
        {"X-Team": "costs 5 $"},
    ],
)
def test_what_is_no_header_is_refused(headers):
    with pytest.raises(InputError):
        checked_headers(headers)


def test_variables_are_filled_in(monkeypatch):
    monkeypatch.setenv("MEMALIGN_HEADER_TEAM_KEY", "abc123secret")
    filled = filled_headers({"Authorization": "Bearer $MEMALIGN_HEADER_TEAM_KEY", "X-Team": "a"}, "openai:m")
    assert filled == {"Authorization": "Bearer abc123secret", "X-Team": "a"}


@pytest.mark.parametrize("value", ["abc…", "abc\nX-Other: 1", "", None])
def test_a_variable_that_cannot_be_sent_is_named(monkeypatch, value):
    words = "openai:m: its header Authorization needs .* MEMALIGN_HEADER_TEAM_KEY, which is not set, or holds"
    if value is not None:
        monkeypatch.setenv("MEMALIGN_HEADER_TEAM_KEY", value)
    with pytest.raises(ConfigurationError, match=words) as caught:
        filled_headers({"Authorization": "Bearer $MEMALIGN_HEADER_TEAM_KEY"}, "openai:m")
    assert "abc" not in str(caught.value)
