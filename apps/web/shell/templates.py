"""Django's templates, whose contexts are freed at once when a page is written.

A context of Django refers to itself. What a view hands to a template, of a million entries 40 MB a page, would wait for
a search of the garbage collector.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template import TemplateDoesNotExist
from django.template.backends.django import DjangoTemplates, Template, reraise
from django.template.context import make_context
from django.utils.safestring import SafeString


class Templates(DjangoTemplates):
    """The template backend of the settings."""

    def from_string(self, template_code: str) -> Template:
        return _Template(super().from_string(template_code).template, self)

    def get_template(self, template_name: str) -> Template:
        return _Template(super().get_template(template_name).template, self)


class _Template(Template):
    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        made = make_context(context, request, autoescape=self.backend.engine.autoescape)
        try:
            return self.template.render(made)
        except TemplateDoesNotExist as error:
            reraise(error, self.backend)
            raise
        finally:
            made.dicts.clear()
