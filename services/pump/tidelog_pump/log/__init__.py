"""The value log: segment files, what is in them, what of them is surely on the disk."""
