"""Views of one `Report`: pure functions, one module a format."""
