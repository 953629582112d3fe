"""The usual one."""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
execute_from_command_line(sys.argv)
