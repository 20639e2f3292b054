"""The I/O of the library: files, vLLM, MLflow. Adapters do not decide anything."""
