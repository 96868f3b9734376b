"""Sign in and out, second factor, campus sign-on."""
