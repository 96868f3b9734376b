"""`python -m docsite` writes the generated parts of docs/; tests/docs compare them with the code."""

from __future__ import annotations

import os

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    django.setup()
    from docsite.pages import files

    for path, text in files():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
