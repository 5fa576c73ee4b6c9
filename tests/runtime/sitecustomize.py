"""Runs at the start of every Python process that has this folder on PYTHONPATH: watched programs and their children."""

import os
import sys

if "XLAPORT_WATCH" in os.environ and not any("resource_tracker" in word for word in sys.orig_argv):
    import watch

    watch.install()
