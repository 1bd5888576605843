"""The stream: its position, its batches, its end."""
