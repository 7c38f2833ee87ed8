"""Finds the rules that make a program bad. The search is search.py; what it switches, switches.py."""
