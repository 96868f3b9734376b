"""One pure parser for each format of job accounting: bytes in, normalised rows and rejections out."""
