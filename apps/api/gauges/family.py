"""Families of one gauge, written down in one line each."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


def gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, labels=labels)


def counter(name: str, words: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, words, labels=labels)
