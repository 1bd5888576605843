"""The feed's schema: DDL history in, SCHEMAS_<FEED> out."""
