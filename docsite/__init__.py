"""The parts of docs/ that are generated from the code, and what mkdocs needs beside its own configuration."""
