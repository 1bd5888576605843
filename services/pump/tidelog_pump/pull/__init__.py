"""Reading committed transactions in commit order."""
