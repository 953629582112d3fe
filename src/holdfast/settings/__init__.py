"""Settings: declared in a group (`setting`), read once from an environment (`read`), refused in sentences."""

from holdfast.settings.addresses import address_problems as address_problems
from holdfast.settings.process import Settings as Settings
from holdfast.settings.process import database_problems as database_problems
from holdfast.settings.values import notes as notes
from holdfast.settings.values import problems as problems
from holdfast.settings.values import read as read
from holdfast.settings.values import setting as setting
