"""Finds silent quality degradation of vLLM services.

The map, from the middle outwards (``ARCHITECTURE.md`` draws it):

- ``errors``, ``records``: the words everything speaks in
- ``snapshots``, ``golden``: pure decisions; no clock, network or file
- ``settings``: the configuration file and the environment
- ``serving``: what runs inside the vLLM server
- ``adapters``: the only other I/O
- ``wiring``: picks the adapters that the configuration asks for
- ``commands``, ``cli``: the command ``quality``
"""

__version__ = "0.1.0"
