"""What the DAGs are made of: operators that run the library's commands, and the alerts they send."""
