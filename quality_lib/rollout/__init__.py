"""Automatic rollback: trigger conditions, decision, plan, the order of its steps, post-mortem. Pure."""
