"""REST v1, one file a resource, the serializer beside its view."""
