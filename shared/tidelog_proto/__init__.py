"""Wire contracts generated from proto/tidelog_proto (make proto); checked in, never edited."""
