"""Fixtures that several packages of tests share; no logic."""

from hypothesis import settings

from tests.gpu import pytest_runtest_setup
from tests.heap import pytest_collection_finish
from tests.in_process import quality_here
from tests.mlflow_server import mlflow_uri
from tests.serving.vllm_metrics_page import metrics_page
from tests.vllm_server import model_folder, vllm_server

__all__ = [
    "metrics_page",
    "mlflow_uri",
    "model_folder",
    "pytest_collection_finish",
    "pytest_runtest_setup",
    "quality_here",
    "vllm_server",
]

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
