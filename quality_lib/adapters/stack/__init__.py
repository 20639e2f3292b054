"""The local stack for the demo and a first try: S3, MLflow, Airflow and users."""
