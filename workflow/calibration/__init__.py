"""Measures what a machine gives to pipelines, and keeps it."""
