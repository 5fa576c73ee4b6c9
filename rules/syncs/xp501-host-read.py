"""Reads of a step that could stay on the device."""

from xlaport.ruleset.forms.reads import kept_on_device as fix  # noqa: F401
