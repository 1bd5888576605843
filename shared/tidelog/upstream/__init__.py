"""A TiDB cluster as the upstream: what is asked of its PD and of its TiKV."""
