"""MLflow: snapshots, golden results, scores, incidents. The only package that knows its words."""
