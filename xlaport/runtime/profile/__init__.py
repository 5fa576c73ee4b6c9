"""What a program makes the device do, line by line and step by step: read from the records of runs under watch."""
