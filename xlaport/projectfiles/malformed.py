"""What the readers of settings raise."""


class Malformed(Exception):
    """The text does not follow its format, or uses more of it than is understood here."""
