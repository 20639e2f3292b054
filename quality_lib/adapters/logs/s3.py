"""Logs in S3, or in a server that speaks its language."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.exchanges.ports import LogObject, ObjectGone

BLOCK = 1 << 20
RESUMES = 3
"""How often a broken download goes on where it stopped."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_GONE = {"NoSuchKey", "404", "NotFound"}
_ADVICE = {
    "NoSuchBucket": "create the bucket or correct logs.source",
    "AccessDenied": "the credentials need s3:ListBucket on the bucket and s3:GetObject on the prefix",
    "403": "the credentials need s3:ListBucket on the bucket and s3:GetObject on the prefix",
    "InvalidAccessKeyId": "check the AWS credentials of this process",
    "SignatureDoesNotMatch": "check the AWS credentials of this process",
    "ExpiredToken": "renew the AWS credentials of this process",
}


class S3Logs:
    """A ``LogStore`` over a bucket and prefix; credentials come from where AWS's own tools look."""

    def __init__(self, bucket: str, prefix: str = "", client: Any = None) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client = client or s3_client()

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def objects(self, prefix: str = "") -> Iterator[LogObject]:
        """Give the objects below the prefix, a page of 1000 at a time."""
        from botocore.exceptions import BotoCoreError, ClientError

        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        try:
            for page in pages:
                for item in page.get("Contents", ()):
                    key = str(item["Key"])[len(self._prefix) :]
                    if key and not key.endswith("/"):
                        yield LogObject(key, int(item["Size"]), item["LastModified"])
        except (ClientError, BotoCoreError) as error:
            raise self._failure("listed", error) from error

    def blocks(self, key: str) -> Iterator[bytes]:
        """Give the object's content; a broken download is resumed if the object is still the same."""
        if ".." in key.split("/"):
            raise BadInput(f"the name {key!r} leaves {self}")
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        at, tag, broken = 0, None, 0
        while True:
            extra: dict[str, str] = {"Range": f"bytes={at}-", "IfMatch": tag} if tag and at else {}
            try:
                answer = self._client.get_object(
                    Bucket=self._bucket, Key=self._prefix + key, **extra
                )
                tag, body = answer.get("ETag"), answer["Body"]
                while block := body.read(BLOCK):
                    at += len(block)
                    yield block
                return
            except ClientError as error:
                raise self._failure("read", error, key) from error
            except (BotoCoreError, HTTPError, OSError) as error:
                broken += 1
                # Requests are retried by botocore; only a download that has begun goes on here.
                if not at or broken > RESUMES:
                    raise self._failure("read", error, key) from error

    def _failure(self, done: str, error: Exception, key: str = "") -> OutsideFailure:
        """Say what went wrong without the library's own message, which may hold addresses and keys."""
        place = f"{self}{key}"
        response = getattr(error, "response", None)
        if isinstance(response, Mapping):
            code = str(response.get("Error", {}).get("Code", "unknown"))
            if code in _GONE and key:
                return ObjectGone(f"{place} is not there any more")
            advice = f"; {_ADVICE[code]}" if code in _ADVICE else ""
            return OutsideFailure(f"{place} cannot be {done}: S3 answered {code}{advice}")
        if type(error).__name__ in {"NoCredentialsError", "PartialCredentialsError"}:
            return OutsideFailure(
                f"{place} cannot be {done}: this process has no AWS credentials; set "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
            )
        return OutsideFailure(
            f"{place} cannot be {done}: S3 at {self._host()} does not answer ({type(error).__name__})"
        )

    def _host(self) -> str:
        return urlsplit(str(self._client.meta.endpoint_url)).netloc.rsplit("@", 1)[-1]


def s3_client(env: Mapping[str, str] | None = None) -> Any:
    """Return a client with retries and timeouts; ``AWS_ENDPOINT_URL`` names another server than AWS."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    env = os.environ if env is None else env
    endpoint = next((env[name] for name in _ENDPOINTS if env.get(name)), None)
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    config = Config(
        connect_timeout=10,
        read_timeout=60,
        retries={"mode": "standard", "max_attempts": 5},
        max_pool_connections=32,
        # Other servers than AWS rarely answer under a host name per bucket.
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
    try:
        return boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=region or ("us-east-1" if endpoint else None),
            config=config,
        )
    except (BotoCoreError, ValueError) as error:
        raise BadInput(
            f"no S3 client can be made: {type(error).__name__}",
            fix="check AWS_ENDPOINT_URL, AWS_REGION and AWS_PROFILE",
        ) from error
