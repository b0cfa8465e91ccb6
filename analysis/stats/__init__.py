"""Statistics on arrays: tests, intervals, rankings. No files, no frameworks, no global state."""
