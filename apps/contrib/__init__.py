"""Plug-ins: whole optional features. The core never imports one."""
