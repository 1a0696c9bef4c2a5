"""Tests of django-redq: ``unit`` needs no server, everything else runs on real ones."""
