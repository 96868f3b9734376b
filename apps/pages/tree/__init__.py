"""The policy tree as rows and as a picture."""
