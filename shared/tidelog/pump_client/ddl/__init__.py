"""Schema changes of an application: SQL in, the job that TiDB would make of it out. Pure.

`parse` reads the text, `plan` says what the schema is afterwards; `schema_changer` (a room above)
runs it.
"""
