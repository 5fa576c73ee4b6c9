"""Shapes that depend on a mask, where only a sum or a count is asked of what it selects."""

from xlaport.ruleset.forms.masks import without_selection as fix  # noqa: F401
