"""What several rooms need and none owns: errors, clock, outbound requests, signing, blobs, tables."""
