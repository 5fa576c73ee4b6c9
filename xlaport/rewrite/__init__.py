"""Edits as data (`ops`) and the one place that applies them with libcst (`apply`)."""
