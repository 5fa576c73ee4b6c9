"""One parse and one traversal a file; names, values and training loops derived from them on demand."""
