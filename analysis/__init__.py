"""Figures, tables and reports from finished run folders; reads files only."""
