"""The product's own files: baseline, calibration, golden runs, results, the journal of a rollback."""
