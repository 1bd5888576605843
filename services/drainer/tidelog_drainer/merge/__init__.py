"""The Pumps' transactions, merged in commit order."""
