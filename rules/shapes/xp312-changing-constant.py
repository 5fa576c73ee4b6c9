"""Numbers that change as parameters of the graph."""

from xlaport.ruleset.forms.positions import as_parameter as fix  # noqa: F401
