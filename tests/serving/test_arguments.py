import pytest

from quality_lib.serving.arguments import mask_secrets


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--api-key", "a", "b", "--port", "1"], ["--api-key", "***", "***", "--port", "1"]),
        (["--api-key=a"], ["--api-key=***"]),
        (["--api_key", "a"], ["--api_key", "***"]),
        (["--hf-token", "--port", "1"], ["--hf-token", "--port", "1"]),
        (["--ssl-keyfile-password", "p"], ["--ssl-keyfile-password", "***"]),
        # limits on tokens are no secrets
        (["--max-num-batched-tokens", "2048"], ["--max-num-batched-tokens", "2048"]),
        (
            ["--kv-transfer-config", '{"role": "both", "api_key": "a"}'],
            ["--kv-transfer-config", '{"role": "both", "api_key": "***"}'],
        ),
        (["--model", "s3://me:pass@host/m"], ["--model", "s3://me:***@host/m"]),
        ([], []),
    ],
)
def test_secrets_are_masked_and_nothing_else(args: list[str], expected: list[str]) -> None:
    assert mask_secrets(args) == tuple(expected)
