"""Dates, calendars and durations, and encodings of named coordinates."""
