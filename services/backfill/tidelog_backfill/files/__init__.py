"""What lies in a directory of logs, cut into chunks that are read one by one, each by itself."""
