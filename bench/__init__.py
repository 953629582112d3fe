"""Measures Holdfast and its peers on the same work, the same servers, in one sitting. `python -m bench --help`."""
