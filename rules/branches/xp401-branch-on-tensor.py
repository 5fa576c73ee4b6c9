"""`if` on a tensor as `torch.where`."""

from xlaport.ruleset.forms.branches import chosen_on_device as fix  # noqa: F401
