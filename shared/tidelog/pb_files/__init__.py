"""Directories of `pb_binlog` files, as the original's file target keeps them and ours does.

Names, framing, savepoint and a reader; a record is a Binlog of pb_binlog.proto.
"""
