"""Keeps the contents of the local S3 server over its restarts: moto holds them in memory only."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from quality_lib.errors import OutsideFailure

BUCKET = "quality"
REGION = "us-east-1"
CREDENTIALS = {
    # Moto takes any; these make sure that nobody's real keys are sent to it.
    "AWS_ACCESS_KEY_ID": "quality-local",
    "AWS_SECRET_ACCESS_KEY": "quality-local",
    "AWS_DEFAULT_REGION": REGION,
}


class S3Contents:
    """The one bucket of the local S3 server, and the folder that it is saved to."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self._endpoint = endpoint
        self._folder = folder
        self._unsaved = folder.with_name(folder.name + ".unsaved")

    @property
    def was_lost(self) -> bool:
        """Whether the server was used and has not been saved since; ask before it runs."""
        return self._unsaved.exists()

    def answers(self) -> bool:
        """Return whether the server serves its bucket list."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client().list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True

    def mark_used(self) -> None:
        """Note that from now on a crash of the server loses something."""
        self._unsaved.touch()

    def fill(self) -> int:
        """Make the bucket, if it is missing, and put the saved objects back; return how many."""
        client = self._client()
        if any(bucket["Name"] == BUCKET for bucket in client.list_buckets()["Buckets"]):
            return 0
        client.create_bucket(Bucket=BUCKET)
        count = 0
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = Path(folder, name)
                client.upload_file(str(path), BUCKET, path.relative_to(self._folder).as_posix())
                count += 1
        return count

    def save(self) -> int:
        """Write every object to the folder, whole or not at all; return how many there are."""
        from botocore.exceptions import BotoCoreError, ClientError

        draft = self._folder.with_name(self._folder.name + ".new")
        count = 0
        try:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            client = self._client()
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
                for item in page.get("Contents", ()):
                    path = (draft / item["Key"]).resolve()
                    if not path.is_relative_to(draft.resolve()):
                        continue  # a key with ".." is nobody's that we know
                    path.parent.mkdir(parents=True, exist_ok=True)
                    client.download_file(BUCKET, item["Key"], str(path))
                    count += 1
            shutil.rmtree(self._folder, ignore_errors=True)
            draft.replace(self._folder)
            self._unsaved.unlink(missing_ok=True)
        except (OSError, BotoCoreError, ClientError) as error:
            raise OutsideFailure(
                f"the contents of the S3 server cannot be saved to {self._folder}: {error}. "
                "`quality stack down --discard` ends it without"
            ) from error
        return count

    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self._endpoint,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            region_name=REGION,
            config=Config(
                proxies={},
                connect_timeout=3,
                read_timeout=30,
                retries={"max_attempts": 1},
                s3={"addressing_style": "path"},
            ),
        )
