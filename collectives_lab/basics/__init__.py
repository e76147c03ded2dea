"""Helpers for every room: errors, units, tables, devices, trees over ranks."""
