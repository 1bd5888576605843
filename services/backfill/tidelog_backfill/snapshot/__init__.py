"""First copies of whole tables: in chunks of the key, all at once, and then the stream goes on."""
