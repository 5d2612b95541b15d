"""Clients of Tieline."""
