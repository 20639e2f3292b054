"""Fixtures that several packages of tests share; no logic."""

from tests.mlflow_server import mlflow_uri
from tests.vllm_server import model_folder, vllm_server

__all__ = ["mlflow_uri", "model_folder", "vllm_server"]
