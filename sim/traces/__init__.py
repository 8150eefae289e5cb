"""Traces of real pools: read, counted, replayed. Plain text and JSON; Parquet in `parquet.py`."""
