"""What one person looks at, now or in the past."""
